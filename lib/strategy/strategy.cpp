// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/strategy.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "cross_device/axis_sum.hpp"
#include "cross_device/distributed_items.hpp"

#include <utility>

namespace lockstep {

Strategy::Strategy(std::shared_ptr<ReplicaTeam> team) : team_(std::move(team)), extended_(*this) {}
Strategy::~Strategy() {
  ThreadContext& context = thread_context();
  if (context.strategy == this && context.scope == nullptr && context.step == nullptr) context = {};
}

int Strategy::num_replicas_in_sync() const noexcept { return team_->replicas(); }
bool Strategy::is_chief() const noexcept { return team_->communicator().rank() == 0; }
const Communicator& Strategy::communicator() const noexcept { return team_->communicator(); }
const StrategyStatistics& Strategy::statistics() const noexcept { return team_->statistics(); }
int Strategy::local_replicas() const noexcept { return team_->local_replicas(); }
int Strategy::first_replica() const noexcept { return team_->first_replica_id(); }

Scope Strategy::scope() { return Scope(*this); }

void Strategy::run_task(ReplicaTask task, const RunOptions& options) {
  team_->warn_of_ignored(options);
  team_->run(this, task, options.mode);
}

void Strategy::check_cross_replica(std::string_view call) const { detail::require_cross_replica(*team_, call); }

bool Strategy::counts_once_per_rank() const noexcept {
  const ReplicaLayout& layout = team_->communicator().layout();
  return layout.ranks() > 1 && layout.replicas() == layout.ranks();
}

void Strategy::reduce_items(std::string_view call, ReduceOp op, std::span<const Item> items) {
  if (items.empty()) return;
  try {
    check_distributed_items(items, op, call, local_replicas(), first_replica());
  } catch (const Error& error) {
    team_->throw_announced(error);
  }
  team_->collective(
      [&](Communicator& communicator) { communicator.all_reduce(items, op, {.order = {}, .name = call}); });
}

Tensor Strategy::reduce_axis(ReduceOp op, std::span<const ConstTensorView> components, int axis, bool one_value) {
  const bool distributed = !one_value || counts_once_per_rank();
  std::vector<Tensor> sums;
  std::vector<Tensor> counts;
  try {
    if (distributed && components.size() != static_cast<std::size_t>(local_replicas())) {
      detail::throw_error(Code::invalid_argument, "reduce: value has {} components, but this rank has {} replicas",
                          components.size(), local_replicas());
    }
    if (!distributed && num_replicas_in_sync() > 1 && !detail::keeps_one_value(op)) {
      detail::throw_no_sum_of_one_value(op, "value");
    }
    for (const ConstTensorView& component : components) {
      const int resolved = resolve_axis(axis, component.shape);
      sums.push_back(axis_sum(component, resolved, op));
      counts.push_back(Tensor::scalar(component.shape[resolved]));
    }
    std::vector<ConstTensorView> views;
    for (const Tensor& sum : sums) views.push_back(sum.view());
    if (distributed) {
      check_distributed_items(std::vector<Item>{{views, {}}}, ReduceOp::sum, "reduce", local_replicas(),
                              first_replica());
    }
  } catch (const Error& error) {
    team_->throw_announced(error);
  }
  Tensor total = sums.front();
  Tensor count = counts.front();
  if (distributed) {
    total = Tensor(sums.front().dtype(), sums.front().shape());
    count = Tensor(DType::i64, Shape{});
    std::vector<ConstTensorView> sum_views;
    std::vector<ConstTensorView> count_views;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sum_views.push_back(std::as_const(sums[i]).view());
      count_views.push_back(std::as_const(counts[i]).view());
    }
    const TensorView outputs[] = {total.view(), count.view()};
    const Item items[] = {{sum_views, std::span(outputs, 1)}, {count_views, std::span(outputs).subspan(1)}};
    team_->collective([&](Communicator& communicator) {
      communicator.all_reduce(items, ReduceOp::sum, {.order = {}, .name = "reduce"});
    });
  }
  if (op == ReduceOp::mean) divide_by(total, count.elements<std::int64_t>().front());
  const DType dtype = components.front().dtype;
  return rounded_to(total, result_dtype(op, dtype));
}

void Strategy::check_result_type(const Tensor& value, DType dtype, ReduceOp op) {
  if (value.element_count() != 1) {
    detail::throw_error(Code::invalid_argument,
                        "reduce: the result has shape {}, but one number is asked for; reduce a Tensor",
                        to_string(value.shape()));
  }
  if (value.dtype() != dtype) {
    detail::throw_error(
        Code::invalid_argument,
        "reduce: the {} is {}, but {} is asked for; name the result's type, as in reduce<double>(ReduceOp::mean, "
        "value, axis)",
        to_string(op), to_string(value.dtype()), to_string(dtype));
  }
}

namespace detail {

void throw_no_sum_of_one_value(ReduceOp op, const char* kind) {
  throw_error(Code::invalid_argument,
              "reduce: a {} is one value that all replicas share, so it has no {} ({}) over replicas; use mean, or "
              "give one value per "
              "replica",
              kind, to_string(op),
              op == ReduceOp::sum    ? "SUM"
              : op == ReduceOp::prod ? "PROD"
                                     : "BXOR");
}

}  // namespace detail

}  // namespace lockstep
