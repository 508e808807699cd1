// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/variables/variable.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"
#include "variables/elementwise.hpp"
#include "variables/variable_access.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace lockstep {

struct Variable::State {
  std::shared_ptr<ReplicaTeam> team;
  VariableOptions options;
  std::vector<Tensor> copies;  // one per local replica

  /// The number of the copy that the context works on.
  [[nodiscard]] int current() const {
    const ThreadContext& context = thread_context();
    if (team->is_default() || context.mode == Mode::outside) return 0;
    if (context.team != team.get()) detail::require_no_other_strategy(*team, "variable \"" + options.name + "\"");
    return context.mode == Mode::replica || context.mode == Mode::update ? context.component : 0;
  }
  [[nodiscard]] Tensor& copy(int local) { return copies[static_cast<std::size_t>(local)]; }
};

std::string_view to_string(VariableAggregation aggregation) noexcept {
  constexpr std::array<std::string_view, 4> names{"none", "sum", "mean", "only_first_replica"};
  const auto index = static_cast<std::size_t>(aggregation);
  return index < names.size() ? names[index] : "unknown";
}

namespace detail {

void require_one_element(const std::string& name, std::int64_t count) {
  if (count != 1) {
    throw_error(Code::failed_precondition, "value: variable \"{}\" has {} elements; use elements()", name, count);
  }
}

}  // namespace detail

Variable::Variable(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

const std::string& Variable::name() const noexcept { return state_->options.name; }
DType Variable::dtype() const noexcept { return state_->copies.front().dtype(); }
const Shape& Variable::shape() const noexcept { return state_->copies.front().shape(); }
VariableAggregation Variable::aggregation() const noexcept { return state_->options.aggregation; }
bool Variable::trainable() const noexcept { return state_->options.trainable; }
int Variable::component_count() const noexcept { return static_cast<int>(state_->copies.size()); }

std::string Variable::component_name(int local) const {
  static_cast<void>(component(local));
  return local == 0 ? name() : fmt::format("{}/replica_{}", name(), local);
}

Tensor Variable::component(int local) const {
  if (local < 0 || local >= component_count()) {
    detail::throw_error(Code::out_of_range, "variable \"{}\": copy {} does not exist; this rank has {}", name(), local,
                        component_count());
  }
  return state_->copy(local);
}

ConstTensorView Variable::view() const { return state_->copy(state_->current()).view(); }

Tensor Variable::read() const { return state_->copy(state_->current()).clone(); }

TensorView Variable::updatable_component() const {
  const int local = state_->current();
  const ThreadContext& context = thread_context();
  const bool plain_outside = state_->team->is_default() && context.mode == Mode::outside;
  if (context.mode != Mode::update && !plain_outside) {
    detail::throw_error(
        Code::failed_precondition,
        "variable \"{}\": its copies are writable inside update only; use update, or assign to the variable", name());
  }
  return state_->copy(local).view();
}

namespace {

void check_value(const Variable& variable, ConstTensorView value) {
  if (value.dtype != variable.dtype() || !(value.shape == variable.shape())) {
    detail::throw_error(Code::invalid_argument,
                        "assign to variable \"{}\": the value is {}{}, but the variable is {}{}; they must be the same",
                        variable.name(), to_string(value.dtype), to_string(value.shape), to_string(variable.dtype()),
                        to_string(variable.shape()));
  }
}

/// The aggregate of what all replicas write. All replicas.
Tensor aggregate(const Variable& variable, ConstTensorView value) {
  const ThreadContext& context = thread_context();
  if (variable.aggregation() == VariableAggregation::none) {
    detail::throw_error(
        Code::invalid_argument,
        "variable \"{}\": a replica writes it (replica {}), but its aggregation is none. Do one of: create it with "
        "aggregation sum, mean or only_first_replica; write it in cross-replica context, through merge_call; or use "
        "replica.update with a value that is equal on all replicas, such as the result of an all_reduce",
        variable.name(), context.replica->replica_id_in_sync_group());
  }
  Tensor result(variable.dtype(), variable.shape());
  const TensorView output = result.view();
  const bool first_only = variable.aggregation() == VariableAggregation::only_first_replica;
  const ReduceOp op = variable.aggregation() == VariableAggregation::mean ? ReduceOp::mean : ReduceOp::sum;
  context.step->meet(context.replica->local_replica(), {first_only ? CallKind::broadcast : CallKind::all_reduce,
                                                        op,
                                                        std::span(&value, 1),
                                                        std::span(&output, 1),
                                                        {},
                                                        {}});
  return result;
}

}  // namespace

void Variable::write(Write how, ConstTensorView value) const {
  check_value(*this, value);
  const auto write_copy = [this, how](int local, ConstTensorView from) {
    Tensor& copy = state_->copy(local);
    switch (how) {
      case Write::assign: copy.copy_from(from); break;
      case Write::add: detail::add_to(copy.view(), from); break;
      case Write::subtract: detail::subtract_from(copy.view(), from); break;
    }
  };
  const ThreadContext& context = thread_context();
  const int current = state_->current();
  if (context.mode == Mode::replica && context.team != state_->team.get()) {
    detail::throw_error(
        Code::failed_precondition,
        "variable \"{}\": it was made outside every scope, so it has one copy, which a step of {} may read but not "
        "write; create it through that strategy",
        name(), context.team->name());
  }
  if (context.mode == Mode::replica) {
    const Tensor total = aggregate(*this, value);
    write_copy(current, total.view());
  } else if (context.mode == Mode::update) {
    write_copy(current, value);
  } else {
    for (int i = 0; i < component_count(); ++i) write_copy(i, value);
  }
}

Variable VariableAccess::make(std::shared_ptr<ReplicaTeam> team, const Tensor& initial,
                              const VariableOptions& options) {
  if (options.aggregation > VariableAggregation::only_first_replica) {
    detail::throw_error(Code::invalid_argument,
                        "variable \"{}\": aggregation {} is not one of none, sum, mean, only_first_replica",
                        options.name, static_cast<int>(options.aggregation));
  }
  if (options.aggregation == VariableAggregation::mean && !is_floating_point(initial.dtype())) {
    detail::throw_error(
        Code::invalid_argument,
        "variable \"{}\": aggregation MEAN of {} would not be {}; use sum or only_first_replica, or f64 elements",
        options.name, to_string(initial.dtype()), to_string(initial.dtype()));
  }
  auto state = std::make_shared<Variable::State>();
  Tensor first = initial.clone();
  if (team->communicator().size() > 1) {
    const ConstTensorView input = initial.view();
    const TensorView output = first.view();
    const bool is_root = team->communicator().rank() == 0;
    const Item item{is_root ? std::span(&input, 1) : std::span<const ConstTensorView>(), std::span(&output, 1)};
    team->collective([&](Communicator& communicator) {
      communicator.broadcast(std::span(&item, 1), 0, {.order = {}, .name = options.name});
    });
  }
  state->copies.push_back(first);
  for (int i = 1; i < team->local_replicas(); ++i) state->copies.push_back(first.clone());
  state->team = std::move(team);
  state->options = options;
  return Variable(std::move(state));
}

const ReplicaTeam& VariableAccess::team(const Variable& variable) noexcept { return *variable.state_->team; }

}  // namespace lockstep
