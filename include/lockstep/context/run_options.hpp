// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace lockstep {

class ReplicaContext;

/// How the local replicas of one step run.
enum class RunMode : std::uint8_t {
  concurrent,  ///< all at the same time; the step function must be safe for that
  sequential,  ///< one at a time in id order, each until it ends or meets the others; for debugging
};

struct RunOptions {
  RunMode mode = RunMode::concurrent;
};

/// A borrowed step function: `call(object, replica)`.
struct ReplicaTask {
  void* object = nullptr;
  void (*call)(void* object, ReplicaContext& replica) = nullptr;
};

}  // namespace lockstep
