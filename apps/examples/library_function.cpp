// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A library function that knows about distribution, so that its callers need not: it works in a step function of any
// strategy, and without a strategy.

#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <vector>

namespace {

using Variable = lockstep::MirroredVariable<float>;

/// In cross-replica context: updates the moving average with `mean`, on every device that has a copy.
void follow(lockstep::Strategy& strategy, const Variable& average, float mean) {
  strategy.extended().update(average, [mean](auto& v) { v.assign(0.75F * v + 0.25F * mean); });
}

/// Updates the moving average with the mean of `batch`, of which each replica has a part. Like any write to a mirrored
/// variable, it is made once for all replicas: they meet in a merge_call, one of them adds up, and all copies are
/// updated.
void observe(const Variable& average, const std::vector<float>& batch) {
  lockstep::ReplicaContext* replica = lockstep::get_replica_context();
  if (replica == nullptr) {  // cross-replica context: one batch for all replicas
    float sum = 0;
    for (const float x : batch) sum += x;
    follow(lockstep::get_strategy(), average, sum / static_cast<float>(batch.size()));
    return;
  }
  replica->merge_call(
      [](lockstep::Strategy& strategy, const Variable& variable,
         const lockstep::PerReplica<std::vector<float>>& parts) {
        follow(strategy, variable, strategy.reduce(lockstep::ReduceOp::mean, parts, 0));
      },
      average, batch);
}

}  // namespace

int main() {
  lockstep::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto mirrored = strategy.variable<float>(0.0F, {.name = "average"});
  strategy.run([&](lockstep::ReplicaContext& replica) {
    // 1 number on replica 0, 3 on replica 1: every number has the same weight
    observe(mirrored, replica.replica_id_in_sync_group() == 0 ? std::vector<float>{5} : std::vector<float>{6, 6, 7});
  });
  std::printf("in a step of two replicas: %g\n", mirrored.value());
  {
    const lockstep::Scope scope = strategy.scope();
    observe(mirrored, {2, 4});
  }
  std::printf("in cross-replica context: %g\n", mirrored.value());

  const auto plain = lockstep::get_strategy().variable<float>(0.0F);
  observe(plain, {5, 6, 6, 7});
  std::printf("without a strategy: %g\n", plain.value());
}
