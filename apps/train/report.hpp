// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The output of rank 0 during training and afterwards.

#pragma once

#include "train/options.hpp"
#include "train/progress.hpp"

#include <lockstep/lockstep.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace train {

/// The accuracy on the test images after an epoch.
struct EpochTest {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t step = 0;   ///< number of steps done
  double accuracy = 0;
};

/// The result of a run.
struct Summary {
  std::int64_t first_step = 0;  ///< first step of this run: not 0 if it was resumed
  bool preempted = false;       ///< ended early by a signal, after a save
  std::vector<double> losses;   ///< mean loss of each step's global batch
  std::vector<EpochTest> epoch_tests;
  double seconds = 0;  ///< time of all steps, without tests
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

  /// Reports loss, progress and speed for LOCKSTEP_METRICS. Shows the progress, at a bounded rate.
  void progress(const Summary& so_far);
  void resumed(std::int64_t step);
  /// Prints the last of the epoch tests.
  void tested(const Summary& so_far);
  void preempted(std::int64_t step, const std::string& folder);
  /// Prints the summary, and writes it as JSON if requested. Throws std::runtime_error if the file cannot be written.
  void finish(const Summary& summary);

 private:
  const Options& options_;
  const lockstep::Strategy& strategy_;
  std::int64_t steps_;
  bool speaks_;
  bool is_on_gpus_;
  bool models_are_on_gpus_;
  Progress progress_;
};

/// A 64-bit hash of the elements of all variables, in order.
[[nodiscard]] std::uint64_t hash_of(const std::vector<lockstep::MirroredVariable<float>>& variables);

}  // namespace train
