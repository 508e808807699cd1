// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of one step over all replicas; and metrics over many steps: each replica adds to its own totals, and only
// reading aggregates them.
//
//   Mean loss(strategy, "loss");
//   strategy.run([&](...) { ...; loss.update(losses_of_this_replica); });     // no collective, however many steps
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
// Constructors are Collective. A metric is a shared handle: copies refer to the same totals. `update` in a step
// function adds to the totals of this replica: Local, without allocation. In cross-replica context it is allowed only
// with one replica; with several it throws Error(invalid_argument) on all ranks. `result` and `reset` in cross-replica
// context, and outside every scope, concern all replicas: Collective, and `result` costs one all_reduce. In a step
// function they concern this replica only: Local. Totals are f64; numbers are added in the order of updates and then
// along the canonical tree. Counts and totals of integers are exact up to 2^53, and results have the same bits for
// every layout. Thread-safety: the replicas of one step may update concurrently.

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
  /// The mean; 0 if the sum of the weights is 0, as before the first update.
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

  /// Counts the predictions, and those with `predictions[i] == labels[i]`. Throws Error(invalid_argument), and counts
  /// nothing, if the numbers of predictions and labels differ.
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
