// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>

namespace lockstep {

class Variable;
struct VariableState;

/// One copy of a variable: a tensor that shares the memory of the copy. A component keeps its variable alive, so
/// `container` always succeeds (in tf.distribute the variable may have been deleted). Two components are equal if they
/// are the same copy of the same variable.
class LOCKSTEP_API VariableComponent : public Tensor {
 public:
  /// The variable of this copy. Local.
  [[nodiscard]] Variable container() const;
  /// The index of the copy on this rank, from 0.
  [[nodiscard]] int local_replica() const noexcept { return local_; }
  /// The name of the copy: "v" for copy 0, "v/replica_1" for copy 1.
  [[nodiscard]] std::string name() const;
  /// The name as TensorFlow prints it: "v:0", "v/replica_1:0".
  [[nodiscard]] std::string tensor_name() const;

  friend bool operator==(const VariableComponent& a, const VariableComponent& b) noexcept {
    return a.state_ == b.state_ && a.local_ == b.local_;
  }
  [[nodiscard]] std::size_t hash() const noexcept {
    return std::hash<const void*>{}(state_.get()) + static_cast<std::size_t>(local_);
  }

 private:
  friend class Variable;
  VariableComponent(std::shared_ptr<VariableState> state, int local);

  std::shared_ptr<VariableState> state_;
  int local_;
};

/// Prints `<Variable 'v:0' shape=[] dtype=f32, value=1>`. Local.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const VariableComponent& component);

template <>
struct tensor_traits<VariableComponent> : tensor_traits<Tensor> {};

}  // namespace lockstep

/// @cond
template <>
struct std::hash<lockstep::VariableComponent> {
  std::size_t operator()(const lockstep::VariableComponent& component) const noexcept { return component.hash(); }
};
/// @endcond
