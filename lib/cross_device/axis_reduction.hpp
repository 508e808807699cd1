// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A reduction over replicas and along axes of their components.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/tensor.hpp>

#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// One value: its components, or the one value that all replicas share, which is not summed over them.
struct AxisLeaf {
  std::vector<ConstTensorView> components;
  bool is_shared = false;
};

/// Local sums first, then a collective over them and over the numbers of elements that went into them.
class AxisReduction {
 public:
  /// Makes the local sums. Local. Throws Error(invalid_argument) for what this rank can see to be wrong.
  AxisReduction(std::span<const AxisLeaf> leaves, ReduceOp op, const Axes& axes, int local_replicas, int first_replica);

  /// Whether there is something to send.
  [[nodiscard]] bool is_distributed() const noexcept { return !total_views_.empty(); }
  /// What is to be summed over replicas: values, then counts, unless the op is sum. The counts must be exact.
  [[nodiscard]] std::vector<Item> values() const;
  [[nodiscard]] std::vector<Item> counts() const;
  /// The results, one per leaf, when all items are summed.
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
  // per distributed leaf; reserved, so that items may refer to them
  std::vector<std::vector<ConstTensorView>> sum_views_;
  std::vector<std::vector<ConstTensorView>> count_views_;
  std::vector<TensorView> total_views_;
  std::vector<TensorView> total_count_views_;
};

}  // namespace lockstep
