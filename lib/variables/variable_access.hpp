// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/variables/variable.hpp>

#include <memory>

namespace lockstep {

class ReplicaTeam;

/// The library's own makers of variables.
struct VariableAccess {
  /// A variable of `team`'s strategy, whose copies have the elements of `initial` on rank 0. In cross-replica context;
  /// collective.
  static Variable make(std::shared_ptr<ReplicaTeam> team, const Tensor& initial, const VariableOptions& options);
  [[nodiscard]] static const ReplicaTeam& team(const Variable& variable) noexcept;
};

}  // namespace lockstep
