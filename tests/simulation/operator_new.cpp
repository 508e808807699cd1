// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the code reports its accesses, testing/races has these operators.

#include "support/operator_new.hpp"
#include "simulation/allocations.hpp"

void lockstep::test::at_allocation() { simulation::at_allocation(); }
