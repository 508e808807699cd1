// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A reduction over replicas and along axes of their components: each rank sums its components along the axes, then a
// collective sums the results.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// One value: the components of the local replicas, or a value that all replicas share and that is not summed over
/// them.
struct AxisLeaf {
  std::vector<ConstTensorView> components;
  bool is_shared = false;
};

/// The sums over the axes in `mask` (bit i stands for axis i), which the result's shape does not have any more, in the
/// accumulation type of (op, dtype): f32 for 16-bit floats, f64 for the mean of integers. Each sum starts with zero and
/// adds its elements in row-major order; integers wrap. Computed in host memory: elements on a GPU are copied there
/// first. Local. Throws Error(invalid_argument) for bool, and for an op other than sum and mean.
[[nodiscard]] Tensor axis_sum(ConstTensorView value, unsigned mask, ReduceOp op);

/// The number of elements in each of these sums. Local.
[[nodiscard]] std::int64_t axis_count(const Shape& shape, unsigned mask);

/// The local sums of a list of values, and the items of the collectives that add them and the numbers of elements in
/// them over all replicas.
class AxisReduction {
 public:
  /// Computes the local sums. Local. Throws Error(invalid_argument) for values that this rank can see to be wrong.
  AxisReduction(std::span<const AxisLeaf> leaves, ReduceOp op, const Axes& axes, int local_replicas, int first_replica);

  /// Whether any value is summed over replicas.
  [[nodiscard]] bool is_distributed() const noexcept { return !total_views_.empty(); }
  /// The items to be summed over replicas: local sums, and numbers of elements (none if the op is sum). The numbers
  /// must be summed exactly.
  [[nodiscard]] std::vector<Item> values() const;
  [[nodiscard]] std::vector<Item> counts() const;
  /// The results, one per leaf. Valid once all items have been summed.
  [[nodiscard]] std::vector<Tensor> results();

 private:
  struct Leaf {
    std::vector<Tensor> sums;
    std::vector<Tensor> counts;
    Tensor total;
    Tensor count;
    DType dtype = DType::f32;
  };
  void check_leaf(const AxisLeaf& leaf, const Leaf& local, int local_replicas, int first_replica) const;

  ReduceOp op_;
  std::vector<Leaf> leaves_;
  // one entry per distributed leaf; items refer to the entries, so their storage must not move
  std::vector<std::vector<ConstTensorView>> sum_views_;
  std::vector<std::vector<ConstTensorView>> count_views_;
  std::vector<TensorView> total_views_;
  std::vector<TensorView> total_count_views_;
};

}  // namespace lockstep
