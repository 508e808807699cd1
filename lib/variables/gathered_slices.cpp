// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/gathered_slices.hpp"

#include "context/replica_team.hpp"
#include "core/with_extent.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// `count` rows like those of `like`, to be written.
IndexedSlices rows_like(const IndexedSlices& like, std::int64_t count) {
  return {Tensor::uninitialized(like.values.dtype(), detail::with_extent(like.values.shape(), 0, count)),
          Tensor::uninitialized(DType::i64, Shape{count}), like.rows};
}

/// Replicas' numbers of rows, in replica order.
std::vector<std::int64_t> row_counts(ReplicaTeam& team, std::span<const IndexedSlices> local, std::string_view name) {
  std::vector<std::int64_t> mine;
  for (const IndexedSlices& slices : local) mine.push_back(slices.indices.element_count());
  std::vector<ConstTensorView> inputs;
  for (const std::int64_t& count : mine) inputs.push_back(view_of(std::span(&count, 1)));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(team.replicas()));
  const TensorView output = view_of(std::span(counts));
  const Item item{inputs, std::span(&output, 1)};
  team.collective(
      [&](Communicator& communicator) { communicator.all_gather(std::span(&item, 1), {.order = {}, .name = name}); });
  return counts;
}

}  // namespace

IndexedSlices gather_slices(ReplicaTeam& team, std::span<const IndexedSlices> local, std::string_view name) {
  if (team.replicas() == 1) return local.front();
  const std::vector<std::int64_t> counts = row_counts(team, local, name);
  IndexedSlices all = rows_like(local.front(), std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  if (all.indices.element_count() == 0) return all;
  std::vector<ConstTensorView> values;
  std::vector<ConstTensorView> indices;
  for (const IndexedSlices& slices : local) {
    values.push_back(slices.values.view());
    indices.push_back(slices.indices.view());
  }
  const std::array<TensorView, 2> outputs{all.values.view(), all.indices.view()};
  const std::array<Item, 2> items{Item{values, std::span(outputs).first(1)}, Item{indices, std::span(outputs).last(1)}};
  team.collective(
      [&](Communicator& communicator) { communicator.all_gather_v(items, counts, {.order = {}, .name = name}); });
  return all;
}

IndexedSlices broadcast_slices(ReplicaTeam& team, std::span<const IndexedSlices> local, std::string_view name) {
  if (team.communicator().size() == 1) return local.front();
  const bool is_root = team.communicator().rank() == 0;
  const auto broadcast = [&](std::span<const Item> items) {
    team.collective([&](Communicator& communicator) { communicator.broadcast(items, 0, {.order = {}, .name = name}); });
  };
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
