// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/strategy/strategy.hpp>

#include <memory>
#include <span>

namespace lockstep {

/// The parts from which a strategy is constructed.
struct StrategyOfTheLibrary {
  std::shared_ptr<ReplicaTeam> team;
  std::shared_ptr<CrossDeviceOps> ops = nullptr;  ///< null: the default, which depends on the devices
  CommunicationOptions options = {};
};

/// Gives the library access to private members of a strategy.
struct StrategyAccess {
  [[nodiscard]] static ReplicaTeam& team(Strategy& strategy) noexcept { return *strategy.team_; }
  [[nodiscard]] static CrossDeviceOps& ops(Strategy& strategy) noexcept { return *strategy.ops_; }
  [[nodiscard]] static const CommunicationOptions& options(Strategy& strategy) noexcept {
    return strategy.communication_options_;
  }
};

/// Checks the reduction of one value that all replicas share. For mean, min, max, band and bor, the result is equal to
/// this value; for any other op, throws Error(invalid_argument), whose text begins with `call`.
void check_keeps_one_value(std::string_view call, ReduceOp op, const char* kind);

/// Implementations of StrategyHooks::all_gather and StrategyHooks::all_reduce_mixed, in replica_collectives.cpp.
void all_gather_parts(void* none, std::span<const detail::MergePart> parts, Strategy& strategy);
void all_reduce_mixed_parts(void* none, std::span<const detail::MergePart> parts, Strategy& strategy);

}  // namespace lockstep
