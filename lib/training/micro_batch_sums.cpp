// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "training/micro_batch_sums.hpp"

#include "base/check.hpp"
#include "device/host/host_elements.hpp"
#include "kernels/reduce.hpp"
#include "variables/elementwise.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/device/gpu.hpp>

#include <array>
#include <utility>

namespace lockstep::detail {
namespace {

/// Writes to `output` the sum of `tensor` and, unless it is null, of `total`, a sum in the accumulation type of the
/// elements of `tensor`. FoldResult::finished rounds the result to these elements; a partial result is another total.
void sum_on_host(const TensorView& tensor, const void* total, void* output, FoldResult result) {
  constexpr std::array<std::uint8_t, 2> merges{0, 1};
  const std::array<FoldInput, 2> inputs{FoldInput{total, true}, FoldInput{tensor.data, false}};
  const std::size_t first = total == nullptr ? 1 : 0;
  const std::array<void*, 1> outputs{output};
  reduce({.op = ReduceOp::sum,
          .dtype = tensor.dtype,
          .inputs = std::span(inputs).subspan(first),
          .merges = std::span(merges).first(2 - first),
          .outputs = outputs,
          .result = result},
         tensor.element_count());
}

}  // namespace

MicroBatchSums::MicroBatchSums(std::span<const std::vector<TensorView>> tensors) {
  sums_.resize(tensors.empty() ? 0 : tensors.front().size());
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    for (std::size_t replica = 0; replica < sums_.size(); ++replica) {
      const TensorView& tensor = tensors[index][replica];
      const DType dtype = accumulation_dtype(ReduceOp::sum, tensor.dtype);
      if (dtype != tensor.dtype && !is_on_host(tensor.device)) {
        throw_error(
            Code::unimplemented,
            "GradientBuckets::no_sync: tensor {} is {} on {}; micro-batches of 16-bit tensors are added in host "
            "memory only",
            index, to_string(tensor.dtype), to_string(tensor.device));
      }
      sums_[replica].push_back({tensor, Tensor::uninitialized(dtype, tensor.shape, nullptr, tensor.device), true});
    }
  }
}

void MicroBatchSums::add(std::size_t replica, std::size_t index) {
  Sum& sum = sums_[replica][index];
  const bool is_first = std::exchange(sum.is_empty, false);
  if (is_on_host(sum.tensor.device)) {
    void* const total = sum.total.view().data;
    sum_on_host(sum.tensor, is_first ? nullptr : total, total, FoldResult::partial);
  } else if (is_first) {
    copy(sum.total.view(), sum.tensor);
  } else {
    add_to(sum.total.view(), sum.tensor);
  }
}

void MicroBatchSums::move_to_tensor(std::size_t replica, std::size_t index) {
  Sum& sum = sums_[replica][index];
  if (std::exchange(sum.is_empty, true)) return;
  if (is_on_host(sum.tensor.device)) {
    sum_on_host(sum.tensor, sum.total.view().data, sum.tensor.data, FoldResult::finished);
  } else {
    add_to(sum.tensor, sum.total.view());
  }
}

}  // namespace lockstep::detail
