// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics over many steps: each replica adds to totals of its own, and only reading brings them together.
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

// What holds for all metrics below.
//
// Constructors are Collective; a metric may be copied, and all copies are one. `update` in a step function adds to this
// replica's own totals: Local, and allocates nothing. Elsewhere there is no such replica: with several replicas it
// throws Error(invalid_argument), on all ranks. `result` and `reset` in cross-replica context and outside of every
// scope are about all replicas: all ranks call them, and `result` is one collective; in a step function they are about
// this replica alone, and Local. Totals are f64, of the numbers in the order of updates and then along the canonical
// tree: counts and totals of integers are exact up to 2^53, and results are the same, bit for bit, for every layout.
// Thread-safety: the replicas of one step may update at the same time.

/// The sum of all numbers.
class LOCKSTEP_API Sum {
 public:
  explicit Sum(Strategy& strategy, const std::string& name = "sum");

  void update(double value) const;
  void update(std::span<const float> values) const;
  [[nodiscard]] double result() const;
  void reset() const;
  /// Its variables, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return {total_}; }

 private:
  SyncOnReadVariable<double> total_;
};

/// The mean of all numbers, each with its weight.
class LOCKSTEP_API Mean {
 public:
  explicit Mean(Strategy& strategy, const std::string& name = "mean");

  void update(double value, double weight = 1) const;
  /// Each with weight 1; there may be none.
  void update(std::span<const float> values) const;
  /// 0 where all weights together are 0, as before the first update.
  [[nodiscard]] double result() const;
  void reset() const;
  /// Its variables, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return {totals_}; }

 private:
  friend class Accuracy;
  void add(double total, double weight) const;

  SyncOnReadVariable<double> totals_;  // of value * weight, and of the weights
};

/// The share of predictions that are right.
class LOCKSTEP_API Accuracy {
 public:
  explicit Accuracy(Strategy& strategy, const std::string& name = "accuracy");

  /// Counts where `predictions[i]` is `labels[i]`. Throws Error(invalid_argument) when there are more of one; nothing
  /// is counted then.
  void update(std::span<const std::int64_t> labels, std::span<const std::int64_t> predictions) const;
  /// Of `count` predictions `correct` were right.
  /// Throws Error(invalid_argument) unless 0 <= correct <= count.
  void update(std::int64_t correct, std::int64_t count) const;
  /// 0 before the first prediction.
  [[nodiscard]] double result() const { return mean_.result(); }
  void reset() const { mean_.reset(); }
  /// Its variables, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return mean_.state(); }

 private:
  Mean mean_;
};

}  // namespace lockstep
