// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A user's first program; prints one line on the chief.

#include <lockstep/lockstep.hpp>

#include <chrono>
#include <cstdio>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  // Options that are not named have default values, without a warning.
  lockstep::MultiWorkerMirroredStrategy strategy(
      {.communication = lockstep::CommunicatorOptions{.fail_after = std::chrono::seconds(60)}});
  auto ids = strategy.run([](lockstep::ReplicaContext& replica) { return float(replica.replica_id_in_sync_group()); });
  auto total = strategy.reduce(lockstep::ReduceOp::sum, ids);
  if (strategy.is_chief()) std::printf("%d replicas, sum of ids %g\n", strategy.num_replicas_in_sync(), total);
}
