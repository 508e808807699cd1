// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/variables/variable.hpp>

#include <memory>

namespace lockstep {

class ReplicaTeam;

/// Creates variables; for the library's own use.
struct VariableAccess {
  /// Creates a variable of `team`'s strategy; its copies have the elements that `initial` has on rank 0. Cross-replica
  /// context. Collective.
  static Variable make(std::shared_ptr<ReplicaTeam> team, const Tensor& initial, const VariableOptions& options);
  [[nodiscard]] static const ReplicaTeam& team(const Variable& variable) noexcept;
};

}  // namespace lockstep
