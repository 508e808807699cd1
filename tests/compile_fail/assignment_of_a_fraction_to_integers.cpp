// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: a floating-point number cannot be written to a variable of integers

#include <lockstep/lockstep.hpp>

void misuse(const lockstep::MirroredVariable<int>& v) { v.assign_add(2.5); }
