// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/slices.hpp"

#include "base/check.hpp"
#include "core/refusal.hpp"
#include "core/with_extent.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/elements.hpp"

#include <lockstep/collectives/detail/propagate.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace lockstep {
namespace {

/// The gather of one value: its rows and their indices.
struct SlicesGathering {
  std::vector<IndexedSlices> copies;
  std::vector<ConstTensorView> values;
  std::vector<ConstTensorView> indices;
  std::vector<TensorView> value_outputs;
  std::vector<TensorView> index_outputs;
};

SlicesGathering prepare(std::span<const ComponentShape> components, const std::vector<const IndexedSlices*>& mine,
                        const std::vector<Device>& places) {
  std::int64_t rows = 0;
  for (const ComponentShape& component : components) rows += component.shape[0];
  SlicesGathering result;
  for (const IndexedSlices* part : mine) {
    result.values.push_back(std::as_const(part->values).view());
    result.indices.push_back(std::as_const(part->indices).view());
  }
  const ComponentShape& first = components.front();
  for (const Device place : places) {
    result.copies.push_back(
        {Tensor::uninitialized(first.dtype, detail::with_extent(first.shape, 0, rows), nullptr, place),
         Tensor::uninitialized(DType::i64, Shape{rows}, nullptr, place), first.rows});
    result.value_outputs.push_back(result.copies.back().values.view());
    result.index_outputs.push_back(result.copies.back().indices.view());
  }
  return result;
}

}  // namespace

void check_slices(std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::string_view call,
                  int local_replicas) {
  for (const auto& components : values) {
    if (op != ReduceOp::sum && op != ReduceOp::mean) {
      detail::throw_error(Code::invalid_argument,
                          "{}: {} of IndexedSlices is not defined; use sum or mean, or reduce to_dense(value)", call,
                          to_string(op));
    }
    check_component_count(components.size(), call, local_replicas);
    for (const IndexedSlices* part : components) {
      part->validate(std::string(call).c_str());
      if (!supports(op, part->values.dtype())) {
        detail::throw_error(Code::invalid_argument, "{}: {}", call, detail::refusal(op, part->values.dtype()));
      }
    }
  }
}

std::vector<std::vector<IndexedSlices>> reduce_slices(CrossDeviceOps& ops, Communicator& communicator,
                                                      std::string_view call,
                                                      std::span<const std::vector<const IndexedSlices*>> values,
                                                      ReduceOp op, std::span<const std::vector<Device>> places,
                                                      const CommunicationOptions& options) {
  std::vector<std::vector<ComponentShape>> mine;
  for (const auto& components : values) {
    auto& shapes = mine.emplace_back();
    for (const IndexedSlices* part : components)
      shapes.push_back({part->values.dtype(), part->values.shape(), part->rows});
  }
  const auto shapes =
      exchange_shapes(communicator, call, mine, op,
                      {.order = {}, .name = call, .fail_after = options.deadline(), .where = options.where});
  std::vector<SlicesGathering> gatherings;
  gatherings.reserve(values.size());
  std::vector<Item> items;
  std::vector<std::int64_t> rows;
  for (std::size_t k = 0; k < values.size(); ++k) {
    check_shapes_match(shapes[k], 0, call);
    const SlicesGathering& added = gatherings.emplace_back(detail::propagate(
        communicator, [&] { return prepare(shapes[k], values[k], places[k]); }, detail::FoundBy::all_ranks));
    items.push_back({added.values, added.value_outputs});
    items.push_back({added.indices, added.index_outputs});
    for (int twice = 0; twice < 2; ++twice) {
      for (const ComponentShape& component : shapes[k]) rows.push_back(component.shape[0]);
    }
  }
  ops.gather(communicator, items, rows, options);
  std::vector<std::vector<IndexedSlices>> results;
  detail::propagate(communicator, [&] {
    for (SlicesGathering& gathering : gatherings) {
      if (op == ReduceOp::mean) {
        for (IndexedSlices& copy : gathering.copies) {
          copy.values = divided(std::as_const(copy.values).view(), communicator.layout().replicas());
        }
      }
      results.push_back(std::move(gathering.copies));
    }
  });
  return results;
}

}  // namespace lockstep
