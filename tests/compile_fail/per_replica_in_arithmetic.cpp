// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: PerReplica

#include <lockstep/lockstep.hpp>

float misuse(const lockstep::PerReplica<float>& loss) { return loss + 1.0F; }
