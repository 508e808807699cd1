// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: Scope

#include <lockstep/lockstep.hpp>

#include <utility>

void misuse(lockstep::Strategy& strategy) {
  lockstep::Scope scope = strategy.scope();
  lockstep::Scope again = std::move(scope);
}
