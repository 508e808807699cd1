// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "apps/options/version.hpp"

#include <lockstep/lockstep.hpp>

#include <cstdio>

namespace {

constexpr const char* usage =
    "Usage: mpirun -n P lockstep-hello\n"
    "The first program of the README: runs a step on every replica, and prints the sum of the replicas' ids.\n";

}  // namespace

int main(int argc, char** argv) {
  if (const auto code = options::end_by_arguments(argc, argv, "lockstep-hello", usage)) return *code;
  lockstep::Environment environment(argc, argv);
  lockstep::MultiWorkerMirroredStrategy strategy;
  auto ids = strategy.run([](lockstep::ReplicaContext& replica) { return float(replica.replica_id_in_sync_group()); });
  auto total = strategy.reduce(lockstep::ReduceOp::sum, ids);
  const int replicas = strategy.num_replicas_in_sync();
  if (strategy.is_chief()) std::printf("%d replica%s, sum of ids %g\n", replicas, replicas == 1 ? "" : "s", total);
}
