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

struct Request::State {
  /// `acquired` is not posted yet; it reads and writes `blocks`.
  State(std::shared_ptr<detail::Engine> with, const std::shared_ptr<detail::Operation>& acquired,
        detail::MemoryBlocks blocks)
      : engine(std::move(with)), use(acquired), memory(std::make_shared<User>(engine, acquired), std::move(blocks)) {}

  std::shared_ptr<detail::Engine> engine;  ///< null after Request::when_complete
  detail::OperationUse use;
  detail::MemoryUse memory;

 private:
  class User final : public detail::MemoryUser {
   public:
    User(const std::shared_ptr<detail::Engine>& engine, std::shared_ptr<detail::Operation> operation)
        : engine_(engine), operation_(std::move(operation)) {}
    [[nodiscard]] bool finish() noexcept override {
      const std::shared_ptr<detail::Engine> alive = engine_.lock();
      return alive != nullptr && alive->await_end(*operation_);
    }
    [[nodiscard]] std::string name() const override { return describe(operation_->descriptor()); }

   private:
    std::weak_ptr<detail::Engine> engine_;  // expires only while the engine waits for its last operations
    std::shared_ptr<detail::Operation> operation_;
  };
};

namespace detail {

/// Memory blocks of the views of `items`.
[[nodiscard]] MemoryBlocks blocks_of(std::span<const Item> items);

}  // namespace detail

}  // namespace lockstep
