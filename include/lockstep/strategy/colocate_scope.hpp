// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/variables/variable.hpp>

namespace lockstep {

class StrategyExtended;

/// Variables that are made until its end share the devices of one. Made by `StrategyExtended::colocate_vars_with`.
/// Pinned.
class LOCKSTEP_API [[nodiscard]] ColocateScope {
 public:
  ColocateScope(const ColocateScope&) = delete;
  ColocateScope& operator=(const ColocateScope&) = delete;
  ~ColocateScope();

  /// The one whose devices they share.
  [[nodiscard]] const Variable& variable() const noexcept { return variable_; }

 private:
  friend class StrategyExtended;
  explicit ColocateScope(const Variable& variable);

  Variable variable_;
};

}  // namespace lockstep
