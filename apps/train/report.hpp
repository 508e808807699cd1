// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What rank 0 tells the user while training and afterwards.

#pragma once

#include "train/options.hpp"

#include <lockstep/lockstep.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace train {

/// What a run was like.
struct Summary {
  std::int64_t first_step = 0;  ///< where the run began: not 0 when it was resumed
  bool preempted = false;       ///< it was asked to end, and saved
  std::vector<double> losses;   ///< mean loss of each step's global batch
  double seconds = 0;           ///< of all steps
  double communication_seconds = 0;
  double input_wait_seconds = 0;
  double test_accuracy = 0;
  std::uint64_t parameters = 0;  ///< hash
};

class Report {
 public:
  /// Prints the header. On ranks other than 0 nothing is ever printed. `backend`: what models compute with on GPUs;
  /// empty where they compute on CPUs.
  Report(const Options& options, lockstep::Strategy& strategy, std::int64_t steps, const std::string& backend);

  /// Prints a line of progress, at most once a second.
  void progress(const Summary& so_far);
  void resumed(std::int64_t step) const;
  void preempted(std::int64_t step, const std::string& folder) const;
  /// Prints the summary, and writes it as JSON where that was asked for. Throws std::runtime_error when the file cannot
  /// be written.
  void finish(const Summary& summary) const;

 private:
  using Clock = std::chrono::steady_clock;

  const Options& options_;
  const lockstep::Strategy& strategy_;
  std::int64_t steps_;
  bool speaks_;
  bool is_on_gpus_;
  bool models_are_on_gpus_;
  Clock::time_point last_;
};

/// A 64-bit hash of the elements of all variables, in order.
[[nodiscard]] std::uint64_t hash_of(const std::vector<lockstep::MirroredVariable<float>>& variables);

}  // namespace train
