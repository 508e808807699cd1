// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>

#include <cstdint>
#include <span>

namespace lockstep {

/// The mean of numbers that lie on all replicas, each number with the same weight: where batches are uneven, the mean
/// of the replicas' means is another. A value.
class GlobalMean {
 public:
  constexpr GlobalMean(double sum, std::int64_t count) noexcept : sum_(sum), count_(count) {}

  [[nodiscard]] constexpr double sum() const noexcept { return sum_; }
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  /// sum / count; 0 where there is no number at all.
  [[nodiscard]] constexpr double value() const noexcept {
    return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_);
  }
  /// 1 / count; 0 where there is no number at all. A replica that scales the gradient of each of its losses by this
  /// gets, summed over all replicas, the gradient of the mean.
  [[nodiscard]] constexpr double share() const noexcept {
    return count_ == 0 ? 0.0 : 1.0 / static_cast<double>(count_);
  }

 private:
  double sum_;
  std::int64_t count_;
};

/// The mean over the `values` of all replicas, which may bring any number of them, also none: one collective for sum
/// and count together. All replicas. Values are added in f64, in their order, then along the canonical tree.
[[nodiscard]] LOCKSTEP_API GlobalMean global_mean(ReplicaContext& replica, std::span<const float> values);
/// The same of `count` values that add up to `sum` on this replica.
/// Throws Error(invalid_argument) for a negative count, before anything is reduced.
[[nodiscard]] LOCKSTEP_API GlobalMean global_mean(ReplicaContext& replica, double sum, std::int64_t count);

}  // namespace lockstep
