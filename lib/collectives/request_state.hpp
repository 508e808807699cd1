// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/request.hpp>

#include "collectives/engine/engine.hpp"
#include "device/host/memory_use.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace detail {

/// Memory blocks of the views of `items`.
[[nodiscard]] std::vector<MemoryBlock> blocks_of(std::span<const Item> items);

}  // namespace detail

struct Request::State {
  /// `acquired` is not posted yet. In each run it reads and writes the blocks that the first run has got from
  /// `blocks()`. If an allocation fails, `acquired` is released, or stays the caller's.
  template <class Blocks>
  State(std::shared_ptr<detail::Engine> with, detail::OperationUse&& acquired, const Blocks& blocks)
      : engine(std::move(with)), use(std::move(acquired)), memory(memory_of(engine, use.operation(), blocks)) {}

  std::shared_ptr<detail::Engine> engine;  ///< null after Request::when_complete
  detail::OperationUse use;
  detail::MemoryUse memory;

 private:
  class User final : public detail::MemoryUser {
   public:
    User(const std::shared_ptr<detail::Engine>& engine, const std::shared_ptr<detail::Operation>& operation)
        : engine_(engine), operation_(operation) {}
    [[nodiscard]] bool finish() noexcept override {
      const std::shared_ptr<detail::Operation> operation = operation_.lock();
      if (operation == nullptr) return true;
      const std::shared_ptr<detail::Engine> alive = engine_.lock();
      return alive != nullptr && alive->await_end(*operation);
    }
    [[nodiscard]] std::string name() const override {
      const std::shared_ptr<detail::Operation> operation = operation_.lock();
      return operation != nullptr ? describe(operation->descriptor()) : "an operation that has ended";
    }

   private:
    std::weak_ptr<detail::Engine> engine_;        // expires only while the engine waits for its last operations
    std::weak_ptr<detail::Operation> operation_;  // weak: the operation owns this object
  };

  template <class Blocks>
  static const detail::UsedMemory& memory_of(const std::shared_ptr<detail::Engine>& engine,
                                             const std::shared_ptr<detail::Operation>& acquired, const Blocks& blocks) {
    detail::UsedMemory& kept = acquired->memory();
    if (kept.user == nullptr) {
      kept.blocks = blocks();
      kept.user = std::make_shared<User>(engine, acquired);
    }
    return kept;
  }
};

}  // namespace lockstep
