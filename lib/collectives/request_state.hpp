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
[[nodiscard]] MemoryBlocks blocks_of(std::span<const Item> items);
/// As blocks_of, but stored in `acquired`, whose items are the same in each run.
[[nodiscard]] MemoryBlocks blocks_in(Operation& acquired, std::span<const Item> items);

}  // namespace detail

struct Request::State {
  /// `acquired` is not posted yet; it reads and writes `blocks`.
  State(std::shared_ptr<detail::Engine> with, const std::shared_ptr<detail::Operation>& acquired,
        detail::MemoryBlocks blocks)
      : engine(std::move(with)), use(acquired), memory(std::make_shared<User>(engine, acquired), std::move(blocks)) {}
  /// As above, with the blocks of `items` and the memory user that `acquired` stores.
  State(std::shared_ptr<detail::Engine> with, const std::shared_ptr<detail::Operation>& acquired,
        std::span<const Item> items)
      : engine(std::move(with)),
        use(acquired),
        memory(user_of(engine, acquired), detail::blocks_in(*acquired, items)) {}

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

  static std::shared_ptr<detail::MemoryUser> user_of(const std::shared_ptr<detail::Engine>& engine,
                                                     const std::shared_ptr<detail::Operation>& acquired) {
    detail::OperationMemory& kept = acquired->memory();
    if (kept.user == nullptr) kept.user = std::make_shared<User>(engine, acquired);
    return kept.user;
  }
};

}  // namespace lockstep
