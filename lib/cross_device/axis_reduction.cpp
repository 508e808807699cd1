// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/axis_reduction.hpp"

#include "cross_device/axis_sum.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/elements.hpp"

#include <cstdint>
#include <utility>

namespace lockstep {
namespace {

std::vector<ConstTensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<ConstTensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

std::vector<Item> items_of(const std::vector<std::vector<ConstTensorView>>& inputs,
                           const std::vector<TensorView>& outputs) {
  std::vector<Item> items;
  for (std::size_t k = 0; k < inputs.size(); ++k) items.push_back({inputs[k], std::span(&outputs[k], 1)});
  return items;
}

}  // namespace

AxisReduction::AxisReduction(std::span<const AxisLeaf> leaves, ReduceOp op, const Axes& axes, int local_replicas,
                             int first_replica)
    : op_(op) {
  for (const AxisLeaf& leaf : leaves) {
    Leaf& local = leaves_.emplace_back();
    local.dtype = leaf.components.front().dtype;
    for (const ConstTensorView& component : leaf.components) {
      const unsigned mask = axes.mask(component.shape, "reduce");
      local.sums.push_back(axis_sum(component, mask, op));
      local.counts.push_back(Tensor::scalar(axis_count(component.shape, mask)));
    }
    if (leaf.is_shared) {
      local.total = local.sums.front();
      local.count = local.counts.front();
      continue;
    }
    check_leaf(leaf, local, local_replicas, first_replica);
    local.total = Tensor(local.sums.front().dtype(), local.sums.front().shape());
    local.count = Tensor(DType::i64, Shape{});
    sum_views_.push_back(views_of(local.sums));
    count_views_.push_back(views_of(local.counts));
    total_views_.push_back(local.total.view());
    total_count_views_.push_back(local.count.view());
  }
}

void AxisReduction::check_leaf(const AxisLeaf& leaf, const Leaf& local, int local_replicas, int first_replica) const {
  check_same_dtype(leaf.components, "reduce", first_replica);
  const std::vector<ConstTensorView> views = views_of(local.sums);
  const Item item{views, {}};
  check_distributed_items(std::span(&item, 1), ReduceOp::sum, "reduce", local_replicas, first_replica);
}

std::vector<Item> AxisReduction::values() const { return items_of(sum_views_, total_views_); }

std::vector<Item> AxisReduction::counts() const {
  if (op_ == ReduceOp::sum) return {};
  return items_of(count_views_, total_count_views_);
}

std::vector<Tensor> AxisReduction::results() {
  std::vector<Tensor> results;
  for (Leaf& leaf : leaves_) {
    if (op_ == ReduceOp::mean) divide_elements(leaf.total.view(), leaf.count.elements<std::int64_t>().front());
    results.push_back(rounded_to(leaf.total, result_dtype(op_, leaf.dtype)));
  }
  return results;
}

}  // namespace lockstep
