// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Attributes of variables, and reading them.

#include <lockstep/variables/variable.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "variables/variable_access.hpp"
#include "variables/variable_state.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/values/print.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <fmt/format.h>

#include <utility>

namespace lockstep {

using Place = VariableState::Place;

Variable::Variable(std::shared_ptr<VariableState> state) noexcept : state_(std::move(state)) {}

const std::string& Variable::name() const noexcept { return state_->options.name; }
DType Variable::dtype() const noexcept { return state_->copies.front().dtype(); }
const Shape& Variable::shape() const noexcept { return state_->copies.front().shape(); }
VariableSynchronization Variable::synchronization() const noexcept { return state_->options.synchronization; }
VariableAggregation Variable::aggregation() const noexcept { return state_->options.aggregation; }
bool Variable::trainable() const noexcept { return state_->options.trainable.value_or(true); }
Device Variable::device() const { return state_->copy(state_->use().copy).device(); }
int Variable::component_count() const noexcept { return static_cast<int>(state_->copies.size()); }

VariableComponent Variable::component(int local) const {
  if (local < 0 || local >= component_count()) {
    detail::throw_error(Code::out_of_range,
                        "component: variable \"{}\" has no copy {}; this rank has {}, numbered from 0", name(), local,
                        detail::counted(component_count(), "copy", "copies"));
  }
  return {state_, local};
}

std::string Variable::component_name(int local) const { return component(local).name(); }

ConstTensorView Variable::view() const {
  const VariableState::Use use = state_->use();
  if (use.place == Place::cross_replica && state_->is_on_read()) {
    detail::throw_error(
        Code::failed_precondition,
        "view: outside of step functions and updates the value of variable \"{}\" is the aggregate of all copies, "
        "which is not stored, so there is no view of it; use value(), read() or component()",
        name());
  }
  return std::as_const(state_->copy(use.copy)).view();
}

void Variable::read_to(TensorView target) const {
  const VariableState::Use use = state_->use();
  if (target.dtype != dtype() || target.shape != shape()) {
    state_->refuse(use, Error(Code::invalid_argument,
                              fmt::format("read_to: the target is {}{}, but variable \"{}\" is {}{}; they must be the "
                                          "same",
                                          to_string(target.dtype), to_string(target.shape), name(), to_string(dtype()),
                                          to_string(shape()))));
  }
  if (use.place == Place::cross_replica && state_->is_on_read()) {
    state_->aggregate_copies(target);
    return;
  }
  copy(target, std::as_const(state_->copy(use.copy)).view());
}

Tensor Variable::read() const {
  const VariableState::Use use = state_->use();
  const auto room = [&] { return Tensor::uninitialized(dtype(), shape(), nullptr, state_->copy(use.copy).device()); };
  const auto read = [&] {
    Tensor result = room();
    read_to(result.view());
    return result;
  };
  const bool all_read = use.place == Place::cross_replica && state_->is_on_read();
  return all_read ? detail::propagate_lack_of_memory(state_->team->communicator(), read) : read();
}

TensorView Variable::updatable_component() const {
  const VariableState::Use use = state_->use();
  const bool plain_outside = use.place == Place::plain && thread_context().mode == Mode::outside;
  if (thread_context().mode != Mode::update && !plain_outside) {
    detail::throw_error(Code::failed_precondition,
                        "updatable_component: the copies of variable \"{}\" are writable inside update only; use "
                        "update, or assign to it",
                        name());
  }
  return state_->copy(use.copy).view();
}

VariableComponent::VariableComponent(std::shared_ptr<VariableState> state, int local)
    : Tensor(state->copy(local)), state_(std::move(state)), local_(local) {}

Variable VariableComponent::container() const { return Variable(state_); }

std::string VariableComponent::name() const {
  const std::string& name = state_->options.name;
  return local_ == 0 ? name : fmt::format("{}/replica_{}", name, local_);
}

std::string VariableComponent::tensor_name() const { return name() + ":0"; }

std::ostream& operator<<(std::ostream& out, const VariableComponent& component) {
  return out << "<Variable '" << component.tensor_name() << "' shape=" << to_string(component.shape())
             << " dtype=" << to_string(component.dtype())
             << ", value=" << detail::elements_text(static_cast<const Tensor&>(component).view()) << '>';
}

std::ostream& operator<<(std::ostream& out, const Variable& variable) {
  const ReplicaTeam& team = VariableAccess::team(variable);
  if (team.has_plain_variables()) return out << variable.component(0);
  out << (variable.synchronization() == VariableSynchronization::on_read ? "SyncOnReadVariable:{"
                                                                         : "MirroredVariable:{");
  for (int i = 0; i < variable.component_count(); ++i) {
    out << (i == 0 ? "" : ", ") << team.first_replica_id() + i << ": " << variable.component(i);
  }
  return out << '}';
}

namespace detail {

void require_one_element(const std::string& name, std::int64_t count) {
  if (count != 1) {
    throw_error(Code::failed_precondition,
                "value: variable \"{}\" has {} elements, but value() is for one element; use values() or elements()",
                name, count);
  }
}

void require_on_host(const std::string& name, Device device, const char* call) {
  if (device.kind == DeviceKind::cpu) return;
  throw_error(Code::failed_precondition, "{}: variable \"{}\" is on {}, but a span refers to host memory; {}", call,
              name, to_string(device),
              std::string_view(call) == "elements"
                  ? "use values(), read_to(), or read().to(Device{})"
                  : "update it as a Variable, whose component is a TensorView, or assign to it");
}

void require_type(const Variable& variable, DType dtype) {
  if (variable.dtype() != dtype) {
    throw_error(Code::invalid_argument,
                "variable \"{}\": its elements are {}, not {}; name its element type, as in MirroredVariable<float>",
                variable.name(), to_string(variable.dtype()), to_string(dtype));
  }
}

void require_synchronization(const Variable& variable, VariableSynchronization synchronization) {
  if (variable.synchronization() == synchronization) return;
  throw_error(Code::invalid_argument, "variable \"{}\": its synchronization is {}, so it is a {}, not a {}",
              variable.name(), to_string(variable.synchronization()),
              synchronization == VariableSynchronization::on_read ? "MirroredVariable" : "SyncOnReadVariable",
              synchronization == VariableSynchronization::on_read ? "SyncOnReadVariable" : "MirroredVariable");
}

}  // namespace detail
}  // namespace lockstep
