// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: PerReplica

#include <lockstep/lockstep.hpp>

float misuse(lockstep::Strategy& strategy) {
  return strategy.run([] { return 1.0F; });
}
