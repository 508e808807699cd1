// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: update: the function must be callable as fn(variable, args...)

#include <lockstep/lockstep.hpp>

void misuse(lockstep::Strategy& strategy, const lockstep::MirroredVariable<float>& v) {
  strategy.extended().update(v, [](float a) { return a; }, 3.0F);
}
