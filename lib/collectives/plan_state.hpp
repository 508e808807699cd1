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
  std::shared_ptr<detail::Operation> operation;  // null before the first run on GPUs
  detail::MemoryBlocks buffers;
  std::vector<detail::MemoryBlock> arena_buffers;  // buffers whose free can be detected
  std::uint64_t frees = 0;                         // the arena's count of frees when all buffers were allocated

  /// The operation of the next run.
  [[nodiscard]] std::shared_ptr<detail::Operation> next();

 private:
  void require_buffers();
};

}  // namespace lockstep
