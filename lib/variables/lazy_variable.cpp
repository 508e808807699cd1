// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/variables/lazy_variable.hpp>

#include "base/mutex.hpp"

#include <optional>

namespace lockstep::detail {

struct VariableSlot::State {
  Mutex mutex;
  std::optional<Variable> variable LOCKSTEP_GUARDED_BY(mutex);  // does not change after it has been set
};

VariableSlot::VariableSlot() : state_(std::make_unique<State>()) {}
VariableSlot::~VariableSlot() = default;

const Variable* VariableSlot::find() const {
  const MutexLock lock(state_->mutex);
  return state_->variable ? &*state_->variable : nullptr;
}

const Variable& VariableSlot::set(const Variable& variable) {
  const MutexLock lock(state_->mutex);
  if (!state_->variable) state_->variable = variable;
  return *state_->variable;
}

}  // namespace lockstep::detail
