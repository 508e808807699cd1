// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: a PerReplica or Mirrored value cannot be written to a variable

#include <lockstep/lockstep.hpp>

void misuse(const lockstep::MirroredVariable<float>& v, const lockstep::PerReplica<float>& value) { v.assign(value); }
