// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing variables in each context.

#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <stdexcept>
#include <utility>

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;
using SparseP = PerReplica<IndexedSlices>;

const Variable& variable_of(World& world, const Json& step) {
  return world.variable(step["variable"].get<std::string>());
}

// ---- writes ----

using Write = void (*)(const Variable&, const Tensor&);
using ScatterWrite = void (*)(const Variable&, const IndexedSlices&);

/// Calls `write(variable, value)` in a scope or a merge_call.
template <class Value, class Fn>
Json write_one_value(World& world, const Json& step, const Value& value, const Fn& fn) {
  return world.in_context(step, [&]() -> Json {
    fn(variable_of(world, step), value);
    return "ok";
  });
}

/// In replica and update context: each copy gets its component.
template <class Value, class Fn>
Json write_components(World& world, const Json& step, const Value& value, const Fn& fn) {
  const Variable& variable = variable_of(world, step);
  const std::string where = step.value("in", "cross_replica");
  if (where == "replica") {
    world.strategy().run([&](const auto& mine) { fn(variable, mine); }, value);
    return "ok";
  }
  if (where == "update") {
    const Scope scope = world.strategy().scope();
    world.strategy().extended().update(variable, [&](const auto& copy, const auto& mine) { fn(copy, mine); }, value);
    return "ok";
  }
  throw std::logic_error("a value with a component for each replica is written by the replicas");
}

CallStep writer(Write fn) {
  return [fn](World& world, const Json& step) {
    const DType dtype = variable_of(world, step).dtype();
    const std::string where = step.value("in", "cross_replica");
    if (where == "replica" || where == "update")
      return write_components(world, step, world.per_replica(step["value"], dtype), fn);
    return write_one_value(world, step, std::get<Tensor>(world.operand(step["value"], dtype)), fn);
  };
}

CallStep scatterer(ScatterWrite fn) {
  return [fn](World& world, const Json& step) {
    const Value value = world.operand(step["value"]);
    if (const auto* components = std::get_if<SparseP>(&value)) return write_components(world, step, *components, fn);
    return write_one_value(world, step, std::get<IndexedSlices>(value), fn);
  };
}

void add_writes(Calls& calls) {
  calls["assign"] = writer([](const Variable& v, const Tensor& value) { v.assign(value); });
  calls["assign_add"] = writer([](const Variable& v, const Tensor& value) { v.assign_add(value); });
  calls["assign_sub"] = writer([](const Variable& v, const Tensor& value) { v.assign_sub(value); });
  calls["scatter_add"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_add(value); });
  calls["scatter_sub"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_sub(value); });
  calls["scatter_mul"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_mul(value); });
  calls["scatter_div"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_div(value); });
  calls["scatter_min"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_min(value); });
  calls["scatter_max"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_max(value); });
  calls["scatter_update"] = scatterer([](const Variable& v, const IndexedSlices& value) { v.scatter_update(value); });
}

// ---- reads ----

/// Calls `fn` with the value that the context reads.
Json read_in_context(World& world, const Json& step, const std::function<Tensor(const Tensor&)>& fn) {
  const Variable& variable = variable_of(world, step);
  const std::string where = step.value("in", "cross_replica");
  if (where == "replica") return result_of(world.strategy().run([&] { return fn(variable.read()); }));
  if (where == "update") {
    const Scope scope = world.strategy().scope();
    std::vector<Tensor> copies;
    world.strategy().extended().update(variable, [&](const auto& copy) { copies.push_back(fn(copy.read())); });
    return result_of(P(std::move(copies), world.first_replica()));
  }
  return world.in_context(step, [&] { return result_of(fn(variable.read())); });
}

Json read_call(World& world, const Json& step) {
  return read_in_context(world, step, [](const Tensor& value) { return value.clone(); });
}

/// variable + a number
Json add_call(World& world, const Json& step) {
  const double number = step["value"].get<double>();
  return read_in_context(world, step, [&](const Tensor& value) { return value + number; });
}

// ---- update ----

/// The functions of `update` by their text, on the variable and their arguments.
Json update_call(World& world, const Json& step) {
  const Scope scope = world.strategy().scope();
  const Variable& variable = variable_of(world, step);
  auto& extended = world.strategy().extended();
  const auto text = step["fn"].get<std::string>();
  const Json args = step.value("args", Json::array());
  const DType dtype = variable.dtype();
  const auto arg = [&](std::size_t k) { return world.per_replica(args[k], dtype); };
  if (text == "(v, a) -> v.assign(a)") {
    extended.update(variable, [](const auto& v, const auto& a) { v.assign(a); }, arg(0));
    return "ok";
  }
  if (text == "(v, a) -> v.assign_add(a)") {
    extended.update(variable, [](const auto& v, const auto& a) { v.assign_add(a); }, arg(0));
    return "ok";
  }
  if (text == "(v, a, b) -> v.assign_add(a * b)") {
    extended.update(
        variable, [](const auto& v, const Tensor& a, const Tensor& b) { v.assign_add(a.to(b.device()) * b); },
        tensor_of(args[0], dtype), arg(1));
    return "ok";
  }
  if (text == "(v, w) -> v.assign(w)") {
    extended.update(
        variable, [](const auto& v, const auto& w) { v.assign(w); }, world.variable(args[0].get<std::string>()));
    return "ok";
  }
  if (text == "(v, c) -> (identity(c), {'k': identity(c)})") {
    using Named = std::map<std::string, Tensor>;
    return result_of(extended.update(
        ungrouped, variable, [](const auto&, const Tensor& c) { return std::tuple(c, Named{{"k", c}}); }, arg(0)));
  }
  if (text == "(v) -> v + 1") {
    return result_of(extended.update(ungrouped, variable, [](const auto& v) { return v.read() + 1; }));
  }
  throw std::logic_error("no code for " + text);
}

// ---- creation ----

Json create_variable_call(World& world, const Json& step) {
  VariableOptions options;
  if (step.contains("synchronization"))
    options.synchronization = parse_variable_synchronization(step["synchronization"].get<std::string>());
  if (step.contains("aggregation"))
    options.aggregation = parse_variable_aggregation(step["aggregation"].get<std::string>());
  std::optional<DType> dtype;
  if (step.contains("dtype")) dtype = parse_dtype(step["dtype"].get<std::string>());
  const Scope scope = world.strategy().scope();
  return result_of(world.strategy().variable(tensor_of(step["initial"], dtype), options));
}

}  // namespace

void add_variable_calls(Calls& calls) {
  add_writes(calls);
  calls["components"] = [](World& world, const Json& step) {
    return result_of(world.components(variable_of(world, step)));
  };
  calls["read"] = read_call;
  calls["add"] = add_call;
  calls["update"] = update_call;
  calls["create_variable"] = create_variable_call;
  calls["canonical_name"] = [](World&, const Json& step) {
    return result_of(canonical_name(step["name"].get<std::string>()));
  };
}

}  // namespace lockstep::conformance
