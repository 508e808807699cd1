// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: a struct becomes a tree of its members by a lockstep::tree_members specialisation

#include <lockstep/lockstep.hpp>

struct Metrics {
  float loss;
  int count;
};

void misuse(lockstep::Strategy& strategy) {
  const auto metrics = strategy.run([] { return Metrics{1.0F, 2}; });
  (void)strategy.reduce("SUM", metrics);
}
