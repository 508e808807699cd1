// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// State of a running case on one rank: its strategy, its operands and variables by name, and the results of earlier
// steps.

#pragma once

#include "conformance/results.hpp"

#include <lockstep/lockstep.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::conformance {

/// An operand, with the static type that the library is called with.
using Value =
    std::variant<Tensor, PerReplica<Tensor>, Mirrored<Tensor>, IndexedSlices, PerReplica<IndexedSlices>, Variable>;

/// The ids of the replicas of a step.
[[nodiscard]] Json replica_ids(Strategy& strategy);

/// A tensor of nested arrays or of {"value", "shape"}. Without `dtype`: f32 if a number has a decimal point, else i32.
Tensor tensor_of(const Json& json, std::optional<DType> dtype = std::nullopt);

class World {
 public:
  /// Makes the variables of `given` in the scope of `strategy`.
  World(Strategy& strategy, const Json& given);

  [[nodiscard]] Strategy& strategy() const { return strategy_; }
  [[nodiscard]] const Json& given() const { return given_; }
  [[nodiscard]] int rank() const { return strategy_.communicator().rank(); }
  [[nodiscard]] int local_replicas() const { return strategy_.communicator().local_replicas(); }
  [[nodiscard]] int first_replica() const;
  /// The device of local replica i.
  [[nodiscard]] Device device(int local) const { return devices_.at(static_cast<std::size_t>(local)); }

  [[nodiscard]] const Variable& variable(const std::string& name) const { return variables_.at(name); }
  /// The current values of this rank's copies of a variable.
  [[nodiscard]] PerReplica<Tensor> components(const Variable& variable) const;
  [[nodiscard]] PerReplica<Tensor> components(const std::string& name) const { return components(variable(name)); }
  void keep(const std::string& name, Value value) { values_.insert_or_assign(name, std::move(value)); }

  /// The operand of a step: a name from `given`, a literal, {"dtype", "replicas"}, ...
  /// A literal has the type `dtype`.
  [[nodiscard]] Value operand(const Json& json, std::optional<DType> dtype = std::nullopt) const;
  /// An operand with one component per local replica; a plain operand is copied to each replica.
  [[nodiscard]] PerReplica<Tensor> per_replica(const Json& json, std::optional<DType> dtype = std::nullopt) const;
  template <class T>
  [[nodiscard]] T operand_as(const Json& json) const {
    return std::get<T>(operand(json));
  }

  /// Runs `body()` in the context of a step's field "in": cross_replica (in the scope), outside, replica, merge. In
  /// replica context the results are one component per replica.
  [[nodiscard]] Json in_context(const Json& step, const std::function<Json()>& body) const;

 private:
  [[nodiscard]] bool is_name(const Json& json) const;

  Strategy& strategy_;
  const Json& given_;
  std::vector<Device> devices_;
  std::map<std::string, Value> values_;
  std::map<std::string, Variable> variables_;
};

}  // namespace lockstep::conformance
