// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategy::reduce and Strategy::gather, below their types.

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "cross_device/axis_reduction.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/gather.hpp"
#include "cross_device/slices.hpp"
#include "device/host/host_elements.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <optional>
#include <utility>

namespace lockstep {
namespace {

void store(std::vector<std::vector<IndexedSlices>>&& results, std::span<const std::vector<IndexedSlices*>> places) {
  for (std::size_t k = 0; k < places.size(); ++k) {
    for (std::size_t i = 0; i < places[k].size(); ++i) *places[k][i] = std::move(results[k][i]);
  }
}

}  // namespace

ReduceOp Strategy::begin_reduction(std::string_view call, const ReduceOpArgument& op) {
  check_cross_replica(call);
  return detail::propagate(communicator(), [&] { return op.op(call); });
}

bool Strategy::counts_once_per_rank() const noexcept {
  const ReplicaLayout& layout = team_->communicator().layout();
  return layout.ranks() > 1 && layout.replicas() == layout.ranks();
}

void Strategy::run_reduction(std::string_view call, ReduceOp op, std::span<const Item> items,
                             const SparseReductions& sparse, const CommunicationOptions& options) {
  detail::propagate(communicator(), [&] {
    check_distributed_items(items, op, call, local_replicas(), first_replica());
    check_slices(sparse.inputs, op, call, local_replicas());
  });
  if (!items.empty()) team_->reduce(items, op, call, options);
  if (sparse.inputs.empty()) return;
  team_->collective([&](Communicator& communicator) {
    store(reduce_slices(*ops_, communicator, call, sparse.inputs, op, sparse.places,
                        communication_options_.merged(options)),
          sparse.outputs);
  });
}

std::vector<Tensor> Strategy::reduce_axes(ReduceOp op, std::span<const std::vector<ConstTensorView>> leaves,
                                          const std::vector<bool>& is_shared, const Axes& axes) {
  std::optional<AxisReduction> reduction;
  detail::propagate(communicator(), [&] {
    std::vector<AxisLeaf> parts;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      if (is_shared[k] && num_replicas_in_sync() > 1 && !detail::keeps_one_value(op)) {
        detail::throw_no_sum_of_one_value(op, "value");
      }
      parts.push_back({leaves[k], is_shared[k]});
    }
    reduction.emplace(parts, op, axes, local_replicas(), first_replica());
  });
  if (reduction->is_distributed()) {
    std::vector<Item> items = reduction->values();
    std::vector<Item> counts = reduction->counts();
    if (ops_are_given_) {
      // counts must be exact, whatever adds the values
      if (!counts.empty()) {
        team_->collective([&](Communicator& communicator) {
          communicator.all_reduce(counts, ReduceOp::sum, {.order = {}, .name = "reduce"});
        });
      }
    } else {
      items.insert(items.end(), counts.begin(), counts.end());
    }
    team_->reduce(items, ReduceOp::sum, "reduce", {});
  }
  return detail::propagate(communicator(), [&] { return reduction->results(); });
}

void Strategy::check_gather() const {
  const ThreadContext& context = thread_context();
  if (context.replica != nullptr && context.team == team_.get()) {
    detail::throw_error(Code::failed_precondition,
                        "gather: called in replica context (replica {}), but it works on the values of all replicas; "
                        "use all_gather there, or call it outside the step function, or inside merge_call",
                        context.replica->replica_id_in_sync_group());
  }
  check_cross_replica("gather");
}

std::vector<Tensor> Strategy::gather_views(std::span<const std::vector<ConstTensorView>> leaves, int axis) {
  if (leaves.empty()) return {};
  detail::propagate(communicator(), [&] {
    for (const auto& components : leaves) check_component_count(components.size(), "gather", local_replicas());
  });
  std::vector<Tensor> results;
  team_->collective([&](Communicator& communicator) {
    for (auto& copies :
         gather_values(*ops_, communicator, "gather", leaves, axis, GatherTo::host, communication_options_))
      results.push_back(std::move(copies.front()));
  });
  return results;
}

namespace detail {

bool has_value_per_replica(const Variable& variable, const Sharing& sharing) noexcept {
  return variable.synchronization() == VariableSynchronization::on_read && sharing.strategy != nullptr &&
         !VariableAccess::team(variable).is_default() && sharing.strategy->variable_created_in_scope(variable);
}

Tensor placed(const Tensor& tensor, Device place) {
  const bool is_there = place.kind == DeviceKind::cpu ? is_on_host(tensor.device()) : tensor.device() == place;
  return is_there ? tensor : copied_to(tensor, place);
}

Tensor copied_to(const Tensor& tensor, Device place) {
  Tensor result = Tensor::uninitialized(tensor.dtype(), tensor.shape(), nullptr, place);
  copy(result.view(), tensor.view());
  return result;
}

void throw_no_sum_of_one_value(ReduceOp op, const char* kind) {
  throw_error(Code::invalid_argument,
              "reduce: a {} is one value that all replicas share, so it has no {} ({}) over replicas; use mean, or "
              "give one value per replica",
              kind, to_string(op),
              op == ReduceOp::sum    ? "SUM"
              : op == ReduceOp::prod ? "PROD"
                                     : "BXOR");
}

void check_axis_result(const Tensor& value, DType dtype, ReduceOp op) {
  if (value.element_count() != 1 || value.shape().rank() != 0) {
    throw_error(
        Code::invalid_argument,
        "reduce: the result has shape {}, but one number is asked for; reduce a Tensor, or say std::nullopt for "
        "no axis",
        to_string(value.shape()));
  }
  if (value.dtype() != dtype) {
    throw_error(
        Code::invalid_argument,
        "reduce: the {} is {}, but {} is asked for; name the result's type, as in reduce<double>(ReduceOp::mean, "
        "value, axis)",
        to_string(op), to_string(value.dtype()), to_string(dtype));
  }
}

}  // namespace detail
}  // namespace lockstep
