// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/global_mean.hpp>

#include "base/check.hpp"

#include <tuple>

namespace lockstep {

GlobalMean global_mean(ReplicaContext& replica, std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += double{x};
  return global_mean(replica, sum, static_cast<std::int64_t>(values.size()));
}

GlobalMean global_mean(ReplicaContext& replica, double sum, std::int64_t count) {
  if (count < 0) {
    detail::throw_error(Code::invalid_argument, "global_mean: count is {} on replica {}; it must not be negative",
                        count, replica.replica_id_in_sync_group());
  }
  const auto [total, number] = replica.all_reduce(ReduceOp::sum, std::tuple(sum, count));
  return {total, number};
}

}  // namespace lockstep
