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

/// Part of tf.distribute.RunOptions; only TPUs use it.
struct XlaOptions {
  bool use_spmd_for_xla_partitioning = true;
  bool enable_xla_dynamic_padder = true;

  friend bool operator==(const XlaOptions&, const XlaOptions&) noexcept = default;
};

struct RunOptions {
  RunMode mode = RunMode::concurrent;
  /// Three options of tf.distribute.RunOptions for TPUs: accepted and ignored. A strategy logs a warning, once, if one
  /// of them is not the default.
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
