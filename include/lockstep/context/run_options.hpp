// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

class ReplicaContext;

/// How the local replicas of one step run.
enum class RunMode : std::uint8_t {
  concurrent,  ///< all at the same time; the step function must be thread-safe
  sequential,  ///< one at a time, in the order of ids, each until it ends or waits for the others; for debugging
};

/// The XlaOptions of tf.distribute.RunOptions, which only TPUs use.
struct XlaOptions {
  bool use_spmd_for_xla_partitioning = true;
  bool enable_xla_dynamic_padder = true;

  friend bool operator==(const XlaOptions&, const XlaOptions&) noexcept = default;
};

struct RunOptions {
  RunMode mode = RunMode::concurrent;
  /// The next three options exist in tf.distribute.RunOptions for TPUs. lockstep accepts and ignores them. If one of
  /// these options does not have its default, the strategy logs a warning, once.
  bool experimental_enable_dynamic_batch_size = true;
  bool experimental_bucketizing_dynamic_shape = false;
  std::optional<XlaOptions> experimental_xla_options = {};
};

/// A reference to a step function, which is run as `call(object, replica)`.
struct ReplicaTask {
  void* object = nullptr;
  void (*call)(void* object, ReplicaContext& replica) = nullptr;
};

}  // namespace lockstep
