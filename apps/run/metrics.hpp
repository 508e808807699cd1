// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// The metrics that the ranks write with LOCKSTEP_METRICS, and a summary of them.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace run {

/// The last record of one rank.
struct RankMetrics {
  int rank = 0;
  std::string host;
  double time = 0;  ///< seconds since 1970
  double elapsed_s = 0;
  double communication_s = 0;
  double waiting_s = 0;
  std::map<std::string, double> values;  ///< numbers that the program reports, by name
};

/// Reads the last complete record of each rank's file: `file` with ".rankN" before its extension. Omits ranks without a
/// file, with a malformed record, and with none since `since` (seconds since 1970): an earlier job may have left files.
[[nodiscard]] std::vector<RankMetrics> read_metrics(const std::filesystem::path& file, int ranks, double since);

/// What the ranks report, for the user.
struct Summary {
  double elapsed_s = 0;
  double progress = -1;  ///< between 0 and 1; -1 if the program does not report it
  std::string values;    ///< "loss 0.31, images_per_s 12000", of the lowest rank that reports each; may be empty
  std::string exchange;  ///< share of communication, and slowest rank; may be empty
};

/// The slowest rank is the one that waits least for the others. `metrics` is not empty.
[[nodiscard]] Summary summarize(const std::vector<RankMetrics>& metrics);

}  // namespace run
