// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The sums of the gradients of micro-batches that are not exchanged.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One sum for each tensor of each local replica. The tensors have dtypes that can be added. Sums of f16 and bf16 are
/// f32. Thread-safety: the replicas of this rank may call the functions at the same time, each for its own tensors.
class MicroBatchSums {
 public:
  /// Allocates the sums of `tensors`, which are listed by tensor, then by replica. Throws Error(unimplemented) for f16
  /// and bf16 on GPUs.
  explicit MicroBatchSums(std::span<const std::vector<TensorView>> tensors);

  /// Adds tensor `index` of `replica` to its sum.
  void add(std::size_t replica, std::size_t index);
  /// Adds the sum of the earlier micro-batches to tensor `index` of `replica`, and makes the sum empty. Does nothing if
  /// the sum is empty.
  void move_to_tensor(std::size_t replica, std::size_t index);

 private:
  struct Sum {
    TensorView tensor;
    Tensor total;
    bool is_empty = true;
  };
  std::vector<std::vector<Sum>> sums_;  // by replica, then by tensor
};

}  // namespace lockstep::detail
