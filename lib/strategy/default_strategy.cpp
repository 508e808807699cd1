// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What is current outside every scope: one replica, no devices of its own, nothing mirrored.

#include "context/thread_context.hpp"

#include <lockstep/context/context.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep {
namespace {

class DefaultStrategy final : public Strategy {
 public:
  explicit DefaultStrategy(std::shared_ptr<ReplicaTeam> team) : Strategy(std::move(team)) {}
};

}  // namespace

Strategy& get_strategy() {
  const ThreadContext& context = thread_context();
  if (context.mode != Mode::outside) return *context.strategy;
  ThreadDefault& fallback = thread_default();
  if (!fallback.strategy) fallback.strategy = std::make_shared<DefaultStrategy>(fallback.team);
  return *fallback.strategy;
}

}  // namespace lockstep
