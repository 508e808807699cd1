// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The output of rank 0 during training and afterwards.

#pragma once

#include "train/options.hpp"

#include <lockstep/lockstep.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace train {

/// The result of a run.
struct Summary {
  std::int64_t first_step = 0;  ///< first step of this run: not 0 if it was resumed
  bool preempted = false;       ///< ended early by a signal, after a save
  std::vector<double> losses;   ///< mean loss of each step's global batch
  double seconds = 0;           ///< time of all steps
  double communication_seconds = 0;
  double input_wait_seconds = 0;
  double test_accuracy = 0;
  std::uint64_t parameters = 0;  ///< hash
};

class Report {
 public:
  /// Prints the header. Ranks other than 0 print nothing. `backend` is the name of the models' backend on GPUs; empty
  /// if they compute on CPUs.
  Report(const Options& options, lockstep::Strategy& strategy, std::int64_t steps, const std::string& backend);

  /// Reports loss, progress and speed for LOCKSTEP_METRICS, and prints a line of progress at most once a second.
  void progress(const Summary& so_far);
  void resumed(std::int64_t step) const;
  void preempted(std::int64_t step, const std::string& folder) const;
  /// Prints the summary, and writes it as JSON if requested. Throws std::runtime_error if the file cannot be written.
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
