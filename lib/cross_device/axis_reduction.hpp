// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A reduction over replicas and along axes of their components. Each rank sums its components along the axes; then a
// collective adds the sums of all replicas.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// One value: the components of the local replicas. If `is_shared`, all replicas have the same value, which is not
/// summed over replicas.
struct AxisLeaf {
  std::vector<ConstTensorView> components;
  bool is_shared = false;
};

/// Returns the sums over the axes in `mask` (bit i stands for axis i). The result's shape does not have these axes. The
/// result has the accumulation type of (op, dtype): f32 for 16-bit floats, f64 for the mean of integers. Each sum
/// starts with zero and adds its elements in row-major order; integers wrap. Computes in host memory; elements on a GPU
/// are first copied to the host. `op` is sum or mean. Local. Throws Error(invalid_argument) for bool.
[[nodiscard]] Tensor axis_sum(ConstTensorView value, unsigned mask, ReduceOp op);

/// The number of elements in each sum that axis_sum returns. Local.
[[nodiscard]] std::int64_t axis_count(const Shape& shape, unsigned mask);

/// The local sums of a list of values, and the items of the two collectives that follow: one collective adds the local
/// sums over all replicas, and the other collective adds the numbers of elements.
class AxisReduction {
 public:
  /// Computes the local sums. Local. Throws Error(invalid_argument) if this rank detects a wrong value, and for an op
  /// other than sum and mean.
  AxisReduction(std::span<const AxisLeaf> leaves, ReduceOp op, const Axes& axes, int local_replicas, int first_replica);

  /// Whether any value is summed over replicas.
  [[nodiscard]] bool is_distributed() const noexcept { return !total_views_.empty(); }
  /// The items to be summed over replicas. `values` has the local sums. `counts` has the numbers of elements, which
  /// must be summed exactly; it is empty if the op is sum.
  [[nodiscard]] std::vector<Item> values() const;
  [[nodiscard]] std::vector<Item> counts() const;
  /// The results, one per leaf. May be called when all items have been summed.
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
  // one entry per distributed leaf; the storage of the entries must not move, because items refer to the entries
  std::vector<std::vector<ConstTensorView>> sum_views_;
  std::vector<std::vector<ConstTensorView>> count_views_;
  std::vector<TensorView> total_views_;
  std::vector<TensorView> total_count_views_;
};

}  // namespace lockstep
