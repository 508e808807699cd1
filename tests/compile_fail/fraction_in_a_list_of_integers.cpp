// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: a floating-point number in a list of integers would be truncated

#include <lockstep/lockstep.hpp>

auto misuse(lockstep::Strategy& strategy) { return strategy.variable<int>({1, 2.5}); }
