// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/gathered_slices.hpp"

#include "context/replica_team.hpp"
#include "core/with_extent.hpp"
#include "cross_device/slices.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/cross_device/all_reduce_cross_device_ops.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Uninitialized slices with `count` rows of the shape and dtype of those of `like`.
IndexedSlices rows_like(const IndexedSlices& like, std::int64_t count) {
  return {Tensor::uninitialized(like.values.dtype(), detail::with_extent(like.values.shape(), 0, count)),
          Tensor::uninitialized(DType::i64, Shape{count}), like.rows};
}

}  // namespace

std::vector<IndexedSlices> gather_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                         std::span<const Device> places, std::string_view name) {
  std::vector<const IndexedSlices*> components;
  for (const IndexedSlices& slices : local) components.push_back(&slices);
  const std::vector<Device> all_places(places.begin(), places.end());
  std::vector<IndexedSlices> all;
  team.collective([&](Communicator& communicator) {
    AllReduceCrossDeviceOps ops;
    auto results =
        reduce_slices(ops, communicator, name, std::span(&components, 1), ReduceOp::sum, std::span(&all_places, 1), {});
    all = std::move(results.front());
  });
  return all;
}

IndexedSlices broadcast_slices(ReplicaTeam& team, std::span<const IndexedSlices> local, std::string_view name) {
  if (team.communicator().size() == 1) return local.front();
  const bool is_root = team.communicator().rank() == 0;
  const auto broadcast = [&](std::span<const Item> items) { team.broadcast(items, 0, name); };
  std::int64_t count = local.front().indices.element_count();
  const ConstTensorView count_input = view_of(std::span<const std::int64_t>(&count, 1));
  const TensorView count_output = view_of(std::span(&count, 1));
  const Item count_item{std::span(&count_input, 1).first(is_root ? 1 : 0),
                        std::span(&count_output, 1).first(is_root ? 0 : 1)};
  broadcast(std::span(&count_item, 1));
  IndexedSlices first = is_root ? local.front() : rows_like(local.front(), count);
  if (count == 0) return first;
  const std::array<ConstTensorView, 2> inputs{std::as_const(first.values).view(), std::as_const(first.indices).view()};
  const std::array<TensorView, 2> outputs{first.values.view(), first.indices.view()};
  const auto item = [&](std::size_t k) {
    return Item{std::span(inputs).subspan(k, is_root ? 1 : 0), std::span(outputs).subspan(k, is_root ? 0 : 1)};
  };
  const std::array<Item, 2> items{item(0), item(1)};
  broadcast(items);
  return first;
}

}  // namespace lockstep
