// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: merge_call: the function must be callable as fn(Strategy&, merged...)

#include <lockstep/lockstep.hpp>

void misuse(lockstep::ReplicaContext& replica) {
  replica.merge_call([](const lockstep::PerReplica<int>& x) { return x; }, 3);
}
