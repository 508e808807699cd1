// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A user's first program; prints one line on the chief.

#include <lockstep/lockstep.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  lockstep::MultiWorkerMirroredStrategy strategy;
  auto ids = strategy.run([](lockstep::ReplicaContext& replica) { return float(replica.replica_id_in_sync_group()); });
  auto total = strategy.reduce(lockstep::ReduceOp::sum, ids);
  if (strategy.is_chief()) std::printf("%d replicas, sum of ids %g\n", strategy.num_replicas_in_sync(), total);
}
