// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: name the element type, as in strategy.variable<float>(1.0F)

#include <lockstep/lockstep.hpp>

auto misuse(lockstep::Strategy& strategy) { return strategy.variable(1.0F); }
