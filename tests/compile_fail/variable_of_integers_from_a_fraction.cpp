// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: a variable of integers cannot be initialised with a floating-point number

#include <lockstep/lockstep.hpp>

auto misuse(lockstep::Strategy& strategy) { return strategy.variable<int>(2.5); }
