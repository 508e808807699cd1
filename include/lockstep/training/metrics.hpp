// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of one step over all replicas, and metrics over many steps. In a metric, each replica adds to its own
// totals; only reading the result aggregates the totals.
//
//   Mean loss(strategy, "loss");
//   strategy.run([&](...) { ...; loss.update(losses_of_this_replica); });     // no collective in any step
//   const double mean = loss.result();                                         // one collective
//   loss.reset();

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

// Rules for the metrics Sum, Mean and Accuracy.
//
// Constructors are Collective. A metric is a shared handle: copies refer to the same totals. In a step function,
// `update` adds to the totals of this replica; it is Local and does not allocate. In cross-replica context, `update` is
// allowed only if there is one replica; if there are several, `update` throws Error(failed_precondition) on all ranks.
// In cross-replica context, and outside every scope, `result` and `reset` refer to all replicas and are Collective;
// `result` costs one all_reduce. In a step function, `result` and `reset` refer to this replica only and are Local.
// Totals are f64: a replica adds numbers in the order of updates, and `result` adds the totals of the replicas along
// the canonical tree. Counts and totals of integers are exact up to 2^53. Results have the same bits for every layout.
// Thread-safety: the replicas of one step may update concurrently.

/// The sum of all numbers.
class LOCKSTEP_API Sum {
 public:
  explicit Sum(Strategy& strategy, const std::string& name = "sum");

  void update(double value) const;
  void update(std::span<const float> values) const;
  [[nodiscard]] double result() const;
  void reset() const;
  /// The variables of this metric, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return {total_}; }

 private:
  SyncOnReadVariable<double> total_;
};

/// The weighted mean of all numbers.
class LOCKSTEP_API Mean {
 public:
  explicit Mean(Strategy& strategy, const std::string& name = "mean");

  void update(double value, double weight = 1) const;
  /// Adds each value with weight 1; `values` may be empty.
  void update(std::span<const float> values) const;
  /// The mean; 0 if the sum of the weights is 0, for example before the first update.
  [[nodiscard]] double result() const;
  void reset() const;
  /// The variables of this metric, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return {totals_}; }

 private:
  friend class Accuracy;
  void add(double total, double weight) const;

  SyncOnReadVariable<double> totals_;  // totals of value * weight, and of weight
};

/// The fraction of predictions that are correct.
class LOCKSTEP_API Accuracy {
 public:
  explicit Accuracy(Strategy& strategy, const std::string& name = "accuracy");

  /// Counts all predictions, and the correct predictions, for which `predictions[i] == labels[i]`. Throws
  /// Error(invalid_argument), and counts nothing, if the numbers of predictions and labels differ.
  void update(std::span<const std::int64_t> labels, std::span<const std::int64_t> predictions) const;
  /// Adds `count` predictions of which `correct` are correct.
  /// Throws Error(invalid_argument) unless 0 <= correct <= count.
  void update(std::int64_t correct, std::int64_t count) const;
  /// The fraction; 0 before the first prediction.
  [[nodiscard]] double result() const { return mean_.result(); }
  void reset() const { mean_.reset(); }
  /// The variables of this metric, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return mean_.state(); }

 private:
  Mean mean_;
};

/// The mean of all numbers on all replicas. If the replicas have different numbers of values, this mean differs from
/// the mean of the replicas' means. Value type.
class GlobalMean {
 public:
  constexpr GlobalMean(double sum, std::int64_t count) noexcept : sum_(sum), count_(count) {}

  [[nodiscard]] constexpr double sum() const noexcept { return sum_; }
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  /// sum / count; 0 if count is 0.
  [[nodiscard]] constexpr double value() const noexcept {
    return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_);
  }
  /// 1 / count; 0 if count is 0. If each replica scales the gradients of its losses by this factor, the sum of the
  /// scaled gradients over all replicas is the gradient of the mean.
  [[nodiscard]] constexpr double share() const noexcept {
    return count_ == 0 ? 0.0 : 1.0 / static_cast<double>(count_);
  }

 private:
  double sum_;
  std::int64_t count_;
};

/// The mean of the `values` of all replicas; a replica may have any number of values, including 0. Collective over all
/// replicas: one all_reduce for sum and count. Each replica adds its values in f64, in their order; the sums of the
/// replicas are added along the canonical tree.
[[nodiscard]] LOCKSTEP_API GlobalMean global_mean(ReplicaContext& replica, std::span<const float> values);
/// Like the function above, for a replica that has `count` values whose sum is `sum`.
/// Throws Error(invalid_argument), before any communication, if `count` is negative.
[[nodiscard]] LOCKSTEP_API GlobalMean global_mean(ReplicaContext& replica, double sum, std::int64_t count);

}  // namespace lockstep
