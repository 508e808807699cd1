// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/collectives/plan.hpp>

#include "collectives/call/places.hpp"
#include "collectives/engine/engine.hpp"
#include "device/host/memory_use.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

struct Plan::State {
  std::shared_ptr<detail::Engine> engine;
  std::function<std::shared_ptr<detail::Operation>()> make;
  std::function<void(detail::Operation&)> log;   // makes the next run write to the hash log; may be null
  std::shared_ptr<detail::Operation> operation;  // null before the first run, if the plan is for tensors on GPUs
  std::vector<detail::MemoryBlock> buffers;
  /// A tensor of the plan that is in the arena, which detects when the tensor is freed.
  struct ArenaBuffer {
    detail::MemoryBlock block;
    detail::TensorName name;
  };
  std::vector<ArenaBuffer> arena_buffers;
  std::uint64_t frees = 0;  // value of Arena::frees when all buffers were known to be allocated

  /// Throws Error(failed_precondition) if `state` is null: the plan has been moved from.
  static void require(const State* state);
  /// The operation of the next run.
  [[nodiscard]] std::shared_ptr<detail::Operation> next();

 private:
  void require_buffers();
};

}  // namespace lockstep
