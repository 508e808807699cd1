// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/collectives/plan.hpp>

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
  std::shared_ptr<detail::Operation> operation;  // null before the first run, if the plan is for tensors on GPUs
  detail::MemoryBlocks buffers;
  std::vector<detail::MemoryBlock> arena_buffers;  // buffers in the arena, which detects when they are freed
  std::uint64_t frees = 0;                         // value of Arena::frees when all buffers were known to be allocated

  /// The operation of the next run.
  [[nodiscard]] std::shared_ptr<detail::Operation> next();

 private:
  void require_buffers();
};

}  // namespace lockstep
