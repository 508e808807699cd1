// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The untyped implementation of Strategy::reduce and Strategy::gather.

#include "base/check.hpp"
#include "collectives/compared_arguments.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "cross_device/axis_reduction.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/gather.hpp"
#include "cross_device/slices.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {
namespace {

void store(std::vector<std::vector<IndexedSlices>>&& results, std::span<const std::vector<IndexedSlices*>> places) {
  for (std::size_t k = 0; k < places.size(); ++k) {
    for (std::size_t i = 0; i < places[k].size(); ++i) *places[k][i] = std::move(results[k][i]);
  }
}

/// A leaf of a reduction along axes: its dtype, and the axes as a bit set.
using AxesOfLeaf = std::pair<DType, unsigned>;

/// "sum of f32 along axis 0", "mean of 3 x f32 along axis 0; f64 along axes 0, 2". Equal leaves that follow each other
/// are named once, with their number.
std::string text_of(ReduceOp op, const std::vector<AxesOfLeaf>& leaves) {
  std::string text(to_string(op));
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    if (k > 0 && leaves[k] == leaves[k - 1]) continue;
    const auto is_other = [&](const AxesOfLeaf& leaf) { return leaf != leaves[k]; };
    const auto run = std::find_if(leaves.begin() + static_cast<std::ptrdiff_t>(k), leaves.end(), is_other);
    const auto number = run - leaves.begin() - static_cast<std::ptrdiff_t>(k);
    const auto [dtype, mask] = leaves[k];
    text += fmt::format("{} {}{} along {}", k == 0 ? " of" : ";", number == 1 ? "" : fmt::format("{} x ", number),
                        to_string(dtype),
                        mask == 0                  ? "no axis"
                        : (mask & (mask - 1)) == 0 ? "axis"
                                                   : "axes");
    const char* separator = " ";
    for (int axis = 0; axis < Shape::max_rank; ++axis) {
      if ((mask >> static_cast<unsigned>(axis) & 1U) != 0)
        text += fmt::format("{}{}", std::exchange(separator, ", "), axis);
    }
  }
  return text;
}

}  // namespace

LeafList Strategy::begin_reduction(std::string_view call, const ReduceOpArgument& op) {
  check_cross_replica(call);
  return detail::propagate(communicator(), [&] { return extended_.leaves_for(call, op.op(call)); });
}

bool Strategy::counts_once_per_rank() const noexcept {
  const ReplicaLayout& layout = team_->communicator().layout();
  return layout.ranks() > 1 && layout.replicas() == layout.ranks();
}

void Strategy::run_reduction(std::string_view call, const LeafList& leaves, const CommunicationOptions& options) {
  const ReduceOp op = leaves.op();
  const std::vector<Item> items = leaves.items();
  detail::propagate(communicator(), [&] {
    check_distributed_items(items, op, call, local_replicas(), first_replica());
    check_slices(leaves.sparse_inputs(), op, call, local_replicas());
  });
  const detail::ComparedArguments compared(communicator(), leaves.arguments());
  if (leaves.sparse_inputs().empty()) {
    if (!items.empty() || leaves.is_collective()) team_->reduce(items, op, call, options);
    return;
  }
  if (!items.empty()) team_->reduce(items, op, call, options);
  team_->collective([&](Communicator& communicator) {
    store(reduce_slices(*ops_, communicator, call, leaves.sparse_inputs(), op, leaves.sparse_places(),
                        communication_options_.merged(options)),
          leaves.sparse_outputs());
  });
}

std::vector<Tensor> Strategy::reduce_axes(LeafList& leaves, const Axes& axes, const CommunicationOptions& options) {
  std::optional<AxisReduction> reduction;
  std::vector<AxesOfLeaf> agreed;
  detail::propagate(communicator(), [&] {
    std::vector<AxisLeaf> parts;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const bool is_shared = !leaves.is_reduced(k);
      if (is_shared && num_replicas_in_sync() > 1) check_keeps_one_value("reduce", leaves.op(), "value");
      const auto components = leaves.components(k);
      parts.push_back({{components.begin(), components.end()}, is_shared});
      agreed.emplace_back(components.front().dtype, axes.mask(components.front().shape, "reduce"));
    }
    reduction.emplace(parts, leaves.op(), axes, local_replicas(), first_replica());
    leaves.add_argument(text_of(leaves.op(), agreed));
  });
  if (reduction->is_distributed() || leaves.is_collective()) {
    const detail::ComparedArguments compared(communicator(), leaves.arguments());
    std::vector<Item> items = reduction->values();
    std::vector<Item> counts = reduction->counts();
    if (ops_are_given_) {
      // counts must be exact, so the communicator adds them, not the cross-device operations that the user gave
      if (!counts.empty()) {
        team_->collective([&](Communicator& communicator) {
          communicator.all_reduce(counts, ReduceOp::sum, {.order = {}, .name = "reduce", .where = options.where});
        });
      }
    } else {
      items.insert(items.end(), counts.begin(), counts.end());
    }
    team_->reduce(items, ReduceOp::sum, "reduce", options);
  }
  return detail::propagate(communicator(), [&] { return reduction->results(); });
}

LeafList Strategy::begin_gather() {
  const ThreadContext& context = thread_context();
  if (context.replica != nullptr && context.team == team_.get()) {
    detail::throw_error(Code::failed_precondition,
                        "gather: called in replica context (replica {}), but it works on the values of all replicas; "
                        "use all_gather there, or call it outside the step function, or inside merge_call",
                        context.replica->replica_id_in_sync_group());
  }
  check_cross_replica("gather");
  return extended_.leaves_for("gather", ReduceOp::sum);
}

std::vector<Tensor> Strategy::gather_leaves(const LeafList& leaves, int axis, const CommunicationOptions& options) {
  if (!leaves.sparse_inputs().empty()) detail::throw_sparse_not_gathered("gather");
  std::vector<std::vector<ConstTensorView>> values;
  for (std::size_t k = 0; k < leaves.dense_size(); ++k) {
    const auto components = leaves.components(k);
    values.emplace_back(components.begin(), components.end());
  }
  if (values.empty() && !leaves.is_collective()) return {};
  const detail::ComparedArguments compared(communicator(), leaves.arguments());
  detail::propagate(communicator(), [&] {
    for (const auto& components : values) check_component_count(components.size(), "gather", local_replicas());
  });
  std::vector<Tensor> results;
  const std::vector<int> axes(static_cast<std::size_t>(local_replicas()), axis);
  team_->collective([&](Communicator& communicator) {
    for (auto& copies : gather_values(*ops_, communicator, "gather", values, axes, GatherTo::host,
                                      communication_options_.merged(options)))
      results.push_back(std::move(copies.front()));
  });
  return results;
}

}  // namespace lockstep
