// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A serial model of the strategies: the values of all replicas are lists in one process, and each function computes
// what the contract of a call says, without a device, a rank or a thread. It shares no code with the library but the
// element types, so that it can judge random calls by bits.

#pragma once

#include "support/canonical_sum.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/variables/variable_options.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep::test {

using Extents = std::vector<std::int64_t>;

/// The elements of one tensor.
struct Elements {
  DType dtype = DType::f32;
  Extents shape;
  Bytes bytes;
};

[[nodiscard]] std::int64_t count_of(const Extents& shape);

/// The C++ type of a leaf: a number, a vector or array of numbers, or a Tensor. Numbers and lists have a static element
/// type.
enum class Form : std::uint8_t { number, list, tensor };

/// Whether a leaf has a value for each replica, or one value that all replicas share.
enum class Share : std::uint8_t { per_replica, mirrored, plain };

/// A leaf of a nest on one replica.
struct LeafValue {
  Form form = Form::tensor;
  Share share = Share::per_replica;
  Elements elements;
};

/// The leaves of a nest in their order.
using Leaves = std::vector<LeafValue>;
/// The same nest on all replicas, by replica id.
using ReplicaLeaves = std::vector<Leaves>;

/// The numbers of replicas of all ranks.
struct Layout {
  std::vector<int> counts;

  [[nodiscard]] int ranks() const { return static_cast<int>(counts.size()); }
  [[nodiscard]] int replicas() const;
  [[nodiscard]] int first(int rank) const;
  /// Whether a plain value is the value of its rank's only replica.
  [[nodiscard]] bool once_per_rank() const { return ranks() > 1 && replicas() == ranks(); }
};
[[nodiscard]] std::string to_string(const Layout& layout);

/// The leaves that a call returns, or the error that it throws on all ranks.
struct Answer {
  std::optional<Code> error;
  Leaves leaves;
};

/// The axes counted from 0; nullopt if an axis does not exist or is named twice.
[[nodiscard]] std::optional<std::set<std::size_t>> resolved(const std::vector<int>& axes, const Extents& shape);

/// Whether a reduction by `op` is defined for `dtype`.
[[nodiscard]] bool is_defined(ReduceOp op, DType dtype);
/// The reduction of one leaf over replicas, along the canonical tree.
[[nodiscard]] Elements reduce_replicas(ReduceOp op, const std::vector<Elements>& values);

/// The type of the results of numbers: that of the values, or double, as in `reduce<double>`.
enum class ResultType : std::uint8_t { own, f64 };

/// Strategy::reduce and ReplicaContext::all_reduce.
[[nodiscard]] Answer reduce_leaves(ReduceOp op, const ReplicaLeaves& values, const Layout& layout,
                                   ResultType type = ResultType::own);
/// The types of the leaves that a nest can have.
enum class Forms : std::uint8_t { only_tensors, any };
/// Strategy::reduce along axes.
[[nodiscard]] Answer reduce_leaves_along(ReduceOp op, const std::vector<int>& axes, const ReplicaLeaves& values,
                                         const Layout& layout, Forms forms);
/// Strategy::gather and ReplicaContext::all_gather. A leaf without a value per replica is the leaf of `replica`, which
/// is a replica of the rank that makes the call.
[[nodiscard]] Answer gather_leaves(int axis, const ReplicaLeaves& values, int replica);

/// Some rows of a tensor, as IndexedSlices.
struct Slices {
  Elements values;
  Elements indices;
  std::int64_t rows = 0;
};
/// A reduction of IndexedSlices: the slices of all replicas, divided by the number of replicas for the mean. nullopt
/// for other operations, which are refused.
[[nodiscard]] std::optional<Slices> reduce_slices(ReduceOp op, const std::vector<Slices>& values);

enum class Write : std::uint8_t { assign, add, subtract };

/// A variable of a strategy of several replicas: the table of class Variable. A function that changes the variable
/// returns the error of the call.
class ModelVariable {
 public:
  ModelVariable(const Elements& initial, VariableSynchronization synchronization, VariableAggregation aggregation,
                const Layout& layout);

  /// Whether a strategy creates such a variable.
  [[nodiscard]] static bool exists(DType dtype, VariableSynchronization synchronization,
                                   VariableAggregation aggregation);

  [[nodiscard]] std::optional<Code> write_in_step(Write how, const std::vector<Elements>& values);
  [[nodiscard]] std::optional<Code> write(Write how, const Elements& value);
  void update(int replica, Write how, const Elements& value);
  /// The value in cross-replica context on a rank.
  [[nodiscard]] Answer read(int rank) const;
  /// Strategy::reduce of the variable on a rank.
  [[nodiscard]] Answer reduce(ReduceOp op, int rank) const;
  [[nodiscard]] const std::vector<Elements>& copies() const { return copies_; }

 private:
  [[nodiscard]] bool is_on_read() const { return synchronization_ == VariableSynchronization::on_read; }

  VariableSynchronization synchronization_;
  VariableAggregation aggregation_;
  Layout layout_;
  std::vector<Elements> copies_;
};

}  // namespace lockstep::test
