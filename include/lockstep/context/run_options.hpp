// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

class ReplicaContext;

/// How the local replicas of one step run.
enum class RunMode : std::uint8_t {
  concurrent,  ///< all at the same time; the step function must be safe for that
  sequential,  ///< one at a time in id order, each until it ends or meets the others; for debugging
};

/// Of tf.distribute.RunOptions; it has a meaning for TPUs alone.
struct XlaOptions {
  bool use_spmd_for_xla_partitioning = true;
  bool enable_xla_dynamic_padder = true;

  friend bool operator==(const XlaOptions&, const XlaOptions&) noexcept = default;
};

struct RunOptions {
  RunMode mode = RunMode::concurrent;
  /// The three of tf.distribute.RunOptions, which are for TPUs: accepted and ignored, whatever they are. A strategy
  /// that is given one that is not the default says so in the log, once.
  bool experimental_enable_dynamic_batch_size = true;
  bool experimental_bucketizing_dynamic_shape = false;
  std::optional<XlaOptions> experimental_xla_options;
};

/// A borrowed step function: `call(object, replica)`.
struct ReplicaTask {
  void* object = nullptr;
  void (*call)(void* object, ReplicaContext& replica) = nullptr;
};

}  // namespace lockstep
