// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// All variables of a strategy lie on all of its devices, so nothing is to be redirected: what the guard can be given
// has been checked.

#include <lockstep/strategy/colocate_scope.hpp>

namespace lockstep {

ColocateScope::ColocateScope(const Variable& variable) : variable_(variable) {}
ColocateScope::~ColocateScope() = default;

}  // namespace lockstep
