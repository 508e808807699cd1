// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "conformance/world.hpp"

#include "core/visit_dtype.hpp"

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace lockstep::conformance {
namespace {

bool has_key(const Json& json, const char* key) { return json.is_object() && json.contains(key); }

void flatten(const Json& json, std::vector<Json>& elements) {
  if (!json.is_array()) {
    elements.push_back(json);
    return;
  }
  for (const Json& part : json) flatten(part, elements);
}

/// Shape of nested arrays.
std::vector<std::int64_t> extents_of(const Json& json) {
  std::vector<std::int64_t> extents;
  for (const Json* part = &json; part->is_array(); part = &part->front()) {
    extents.push_back(static_cast<std::int64_t>(part->size()));
    if (part->empty()) break;
  }
  return extents;
}

template <class T>
T element_of(const Json& json) {
  if constexpr (std::same_as<T, bool>) {
    return json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    return json.get<T>();
  } else {
    double number = 0;
    if (json == "nan") {
      number = std::nan("");
    } else if (json.is_string()) {
      number = json == "inf" ? HUGE_VAL : -HUGE_VAL;
    } else {
      number = json.get<double>();
    }
    if constexpr (std::same_as<T, double>) return number;
    return T(static_cast<float>(number));
  }
}

DType literal_dtype(const std::vector<Json>& elements) {
  for (const Json& element : elements) {
    if (element.is_boolean()) return DType::boolean;
    if (!element.is_number_integer()) return DType::f32;
  }
  return elements.empty() ? DType::f32 : DType::i32;
}

IndexedSlices slices_of(const Json& json, std::optional<DType> dtype) {
  return {.values = tensor_of(json["values"], dtype),
          .indices = tensor_of(json["indices"], DType::i64),
          .rows = json["rows"].get<std::int64_t>()};
}

Tensor moved_to(Device device, const Tensor& tensor) { return tensor.to(device); }

IndexedSlices moved_to(Device device, const IndexedSlices& value) {
  return {.values = value.values.to(device), .indices = value.indices.to(device), .rows = value.rows};
}

std::optional<DType> dtype_in(const Json& json, std::optional<DType> otherwise) {
  return has_key(json, "dtype") ? std::optional(parse_dtype(json["dtype"].get<std::string>())) : otherwise;
}

template <class T, class Make>
PerReplica<T> components_of(const Json& all, const World& world, const Make& make) {
  const int first = world.first_replica();
  return PerReplica<T>(world.local_replicas(), first, [&](int i) {
    return moved_to(world.device(i), make(all.at(static_cast<std::size_t>(first + i))));
  });
}

Variable make_variable(Strategy& strategy, const std::string& name, const Json& json) {
  VariableOptions options;
  options.name = name;
  options.synchronization = parse_variable_synchronization(json["synchronization"].get<std::string>());
  options.aggregation = parse_variable_aggregation(json["aggregation"].get<std::string>());
  if (json.contains("trainable")) options.trainable = json["trainable"].get<bool>();
  return strategy.variable(tensor_of(json["initial"], dtype_in(json, std::nullopt)), options);
}

}  // namespace

Tensor tensor_of(const Json& json, std::optional<DType> dtype) {
  const Json& nested = has_key(json, "value") ? json["value"] : json;
  dtype = dtype_in(json, dtype);
  std::vector<Json> elements;
  flatten(nested, elements);
  const auto extents = has_key(json, "shape") ? json["shape"].get<std::vector<std::int64_t>>() : extents_of(nested);
  Tensor tensor(dtype.value_or(literal_dtype(elements)), Shape(std::span<const std::int64_t>(extents)));
  detail::visit_dtype(tensor.dtype(), [&]<class T>() {
    const auto to = tensor.elements<T>();
    for (std::size_t i = 0; i < elements.size(); ++i) to[i] = element_of<T>(elements[i]);
  });
  return tensor;
}

Json replica_ids(Strategy& strategy) {
  return result_of(strategy.run([](ReplicaContext& replica) { return replica.replica_id_in_sync_group(); }));
}

World::World(Strategy& strategy, const Json& given) : strategy_(strategy), given_(given) {
  const bool is_default = &strategy == &get_strategy();  // it has no devices of its own
  for (int i = 0; i < local_replicas(); ++i)
    devices_.push_back(is_default ? Device{} : strategy.extended().worker_devices()[static_cast<std::size_t>(i)]);
  if (!given.contains("variables")) return;
  for (const auto& [name, json] : given["variables"].items())
    variables_.emplace(name, make_variable(strategy, name, json));
}

int World::first_replica() const { return strategy_.communicator().layout().first(rank()); }

bool World::is_name(const Json& json) const {
  if (!json.is_string()) return false;
  const auto name = json.get<std::string>();
  return variables_.contains(name) || values_.contains(name) || given_.contains(name);
}

Value World::operand(const Json& json, std::optional<DType> dtype) const {
  if (is_name(json)) {
    const auto name = json.get<std::string>();
    if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    return operand(given_[name]);
  }
  dtype = dtype_in(json, dtype);
  if (has_key(json, "replicas")) {
    const Json& all = json["replicas"];
    if (has_key(all.front(), "indices")) {
      return components_of<IndexedSlices>(all, *this, [&](const Json& one) { return slices_of(one, dtype); });
    }
    return components_of<Tensor>(all, *this, [&](const Json& one) { return tensor_of(one, dtype); });
  }
  if (has_key(json, "mirrored")) {
    std::vector<Tensor> copies;
    for (int i = 0; i < local_replicas(); ++i) copies.push_back(tensor_of(json["mirrored"], dtype).to(device(i)));
    return Mirrored<Tensor>(std::move(copies));
  }
  if (has_key(json, "indices")) return slices_of(json, dtype);
  return tensor_of(json, dtype);
}

PerReplica<Tensor> World::per_replica(const Json& json, std::optional<DType> dtype) const {
  const Value value = operand(json, dtype);
  if (const auto* components = std::get_if<PerReplica<Tensor>>(&value)) return *components;
  const Tensor one = std::get<Tensor>(value);
  return PerReplica<Tensor>(local_replicas(), first_replica(), [&](int i) { return one.clone().to(device(i)); });
}

PerReplica<Tensor> World::components(const Variable& variable) const {
  return PerReplica<Tensor>(variable.component_count(), first_replica(),
                            [&](int i) { return variable.component(i).clone(); });
}

Json World::in_context(const Json& step, const std::function<Json()>& body) const {
  const std::string where = step.value("in", "cross_replica");
  if (where == "outside") return body();
  if (where == "cross_replica") {
    const Scope scope = strategy_.scope();
    return body();
  }
  if (where == "merge") {
    const auto results =
        strategy_.run([&](ReplicaContext& replica) { return replica.merge_call([&](Strategy&) { return body(); }); });
    return result_of(results.component(0));
  }
  if (where == "replica") return result_of(strategy_.run([&] { return body(); }));
  throw std::logic_error("a step in \"" + where + "\" needs code of its own");
}

}  // namespace lockstep::conformance
