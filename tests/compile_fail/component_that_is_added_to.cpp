// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: VariableComponent

#include <lockstep/lockstep.hpp>

void misuse(lockstep::VariableComponent component) { component += 1.0F; }
