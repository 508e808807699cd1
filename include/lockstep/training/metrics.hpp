// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics over many steps: each replica adds to its own totals, and only reading aggregates them.
//
//   Mean loss(strategy, "loss");
//   strategy.run([&](...) { ...; loss.update(losses_of_this_replica); });     // no collective, however many steps
//   const double mean = loss.result();                                         // one collective
//   loss.reset();

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

// Rules for all metrics below.
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

}  // namespace lockstep
