// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What one job of the fault matrix does: its event, the moment of the event, and the rank to which it happens.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace faults {

struct Settings {
  std::string event;           ///< a name of matrix.py
  std::string moment;          ///< a name of matrix.py
  std::string interface;       ///< "communicator" or "strategy"
  int culprit = 1;             ///< rank to which the event happens
  double fail_seconds = 3;     ///< the timeout of the job, as in LOCKSTEP_TIMEOUT
  double recover_seconds = 0;  ///< how long after the event a rank tries again; at least three times
  std::int64_t large_elements = std::int64_t{4} << 20;  ///< size of the large transfers
  std::uint64_t seed = 1;                               ///< delays, sizes and kinds of memory
  std::filesystem::path folder;                         ///< reports of the ranks, and requests to the driver
  int rank = 0;                                         ///< this rank
  int ranks = 1;                                        ///< number of ranks

  [[nodiscard]] bool is_culprit() const { return rank == culprit; }
  /// A number below `count` that depends on the seed and on `what`; the same on all ranks.
  [[nodiscard]] std::uint64_t draw(std::uint64_t what, std::uint64_t count) const;
};

/// Reads the words `name=value`. Throws std::invalid_argument.
[[nodiscard]] Settings read_settings(int argc, char** argv);

}  // namespace faults
