// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of lockstep-train. The command line overrides LOCKSTEP_TRAIN_* variables, and these a configuration file.

#pragma once

#include "apps/options/option_error.hpp"
#include "train/progress.hpp"

#include <lockstep/training/gradient_buckets.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace train {

struct Options {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string model = "mlp";
  int epochs = 5;
  std::optional<std::int64_t> steps;  ///< instead of epochs
  std::int64_t global_batch = 256;
  std::size_t bucket_bytes = lockstep::GradientBucketsOptions().bucket_bytes;
  std::vector<int> replicas_per_rank;  ///< one entry per rank
  bool on_gpus = false;                ///< parameters on GPUs, if every rank has one
  bool models_on_gpus = true;          ///< models on GPUs too, if the model supports it and every rank has cuBLAS
  std::string optimizer = "momentum";
  std::optional<double> learning_rate;  ///< else the optimizer's own default
  std::uint64_t seed = 1;
  std::string checkpoint_dir;   ///< empty for none
  std::int64_t save_every = 0;  ///< steps; 0: only on a signal
  int keep_last = 5;            ///< checkpoints; 0: all
  bool resume = false;
  bool tests_epochs = true;               ///< test after every epoch but the last; only without `steps`
  std::optional<ProgressStyle> progress;  ///< else that of the output
  std::string json;                       ///< file name; empty for none
  bool quiet = false;
  std::string help;                          ///< the help text; empty if it was not requested
  bool version = false;                      ///< show the version, and end
  std::map<std::string, std::string> given;  ///< the values as given, of all options that must be equal on all ranks
  /// The places that set options that the command line does not set (see options::Sources).
  std::map<std::string, std::string> sources;
};

using ::options::OptionError;

/// Local; the same on every rank, given the same arguments. `ranks` is the number of ranks of the job. Throws
/// OptionError.
[[nodiscard]] Options parse_options(int argc, const char* const* argv, int ranks);

/// The learning rate to start from.
[[nodiscard]] double initial_learning_rate(const Options& options);

}  // namespace train
