// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of items for one rank, with awkward values, and the check of its results against the oracle by bits.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/placed_bytes.hpp"
#include "support/replica_values.hpp"

#include <vector>

namespace lockstep::test {

/// Inputs and outputs of one rank: every tensor has `outputs` outputs of `output_count(tensor)` elements of
/// `output_dtype(tensor)`.
class Batch {
 public:
  /// The inputs of each replica are on its device.
  Batch(const std::vector<TensorCase>& tensors, const ReplicaLayout& layout, int rank,
        const DeviceOf& device_of = on_host) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      auto& inputs = inputs_.emplace_back();
      auto& views = input_views_.emplace_back();
      for (int replica = layout.first(rank); replica < layout.first(rank + 1); ++replica) {
        inputs.emplace_back(leaf(tensors[i], i, replica), device_of(replica - layout.first(rank)));
        views.emplace_back(inputs.back().data(), tensors[i].dtype, Shape{tensors[i].count}, inputs.back().device());
      }
      outputs_.emplace_back();
      output_views_.emplace_back();
    }
  }

  /// Adds an output to tensor `i`, filled with a pattern that does not occur in results.
  void add_output(std::size_t i, DType dtype, std::int64_t count, Device device = {}) {
    const Bytes pattern(static_cast<std::size_t>(count) * size_of(dtype), std::byte{0xa5});
    output_views_[i].push_back({outputs_[i].emplace_back(pattern, device).data(), dtype, Shape{count}, device});
  }
  /// Uses the inputs of tensor `i` as its outputs, too.
  void reduce_in_place(std::size_t i) {
    for (std::size_t r = 0; r < inputs_[i].size(); ++r) {
      const ConstTensorView& input = input_views_[i][r];
      output_views_[i].push_back({inputs_[i][r].data(), input.dtype, input.shape, input.device});
    }
  }

  [[nodiscard]] std::vector<Item> items() const {
    std::vector<Item> result;
    for (std::size_t i = 0; i < inputs_.size(); ++i) result.push_back({input_views_[i], output_views_[i]});
    return result;
  }
  [[nodiscard]] std::vector<Bytes> results(std::size_t i) const {
    std::vector<Bytes> found;
    for (const TensorView& view : output_views_[i]) found.push_back(read(view));
    return found;
  }

 private:
  std::vector<std::vector<PlacedBytes>> inputs_;
  std::vector<std::vector<ConstTensorView>> input_views_;
  std::vector<std::vector<PlacedBytes>> outputs_;
  std::vector<std::vector<TensorView>> output_views_;
};

}  // namespace lockstep::test
