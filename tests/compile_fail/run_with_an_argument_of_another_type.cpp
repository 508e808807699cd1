// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: run: the function must be callable as fn(ReplicaContext&, args...) or as fn(args...)

#include <lockstep/lockstep.hpp>

#include <vector>

void misuse(lockstep::Strategy& strategy) {
  strategy.run([](const std::vector<int>& args) { return args.size(); }, 5);
}
