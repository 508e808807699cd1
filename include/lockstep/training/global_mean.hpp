// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>

#include <cstdint>
#include <span>

namespace lockstep {

/// The mean of all numbers on all replicas. With uneven batches it differs from the mean of the replicas' means. Value
/// type.
class GlobalMean {
 public:
  constexpr GlobalMean(double sum, std::int64_t count) noexcept : sum_(sum), count_(count) {}

  [[nodiscard]] constexpr double sum() const noexcept { return sum_; }
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  /// sum / count; 0 if count is 0.
  [[nodiscard]] constexpr double value() const noexcept {
    return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_);
  }
  /// 1 / count; 0 if count is 0. If each replica scales the gradients of its losses by this factor, their sum over all
  /// replicas is the gradient of the mean.
  [[nodiscard]] constexpr double share() const noexcept {
    return count_ == 0 ? 0.0 : 1.0 / static_cast<double>(count_);
  }

 private:
  double sum_;
  std::int64_t count_;
};

/// The mean over the `values` of all replicas; each may have any number of them, including none. Collective over all
/// replicas: one all_reduce for sum and count. Values are added in f64, in their order, then along the canonical tree.
[[nodiscard]] LOCKSTEP_API GlobalMean global_mean(ReplicaContext& replica, std::span<const float> values);
/// The same for `count` values whose sum on this replica is `sum`.
/// Throws Error(invalid_argument) if `count` is negative, before any communication.
[[nodiscard]] LOCKSTEP_API GlobalMean global_mean(ReplicaContext& replica, double sum, std::int64_t count);

}  // namespace lockstep
