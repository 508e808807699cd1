// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce, gather and related calls.

#include "conformance/steps.hpp"

#include <lockstep/lockstep.hpp>

#include <algorithm>
#include <concepts>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;
using SparseP = PerReplica<IndexedSlices>;

bool is_tree(const Json& json) {
  static const std::vector<const char*> leaf_keys = {"replicas", "value", "indices", "mirrored"};
  if (!json.is_object()) return json.is_array() && !json.empty() && !json.front().is_number();
  return std::ranges::none_of(leaf_keys, [&](const char* key) { return json.contains(key); });
}

/// "*" for a leaf, "[**]" for a list of two, "{*}" for a map.
std::string structure_of(const Json& json) {
  if (!is_tree(json)) return "*";
  std::string text = json.is_array() ? "[" : "{";
  for (const Json& part : json) text += structure_of(part);
  return text + (json.is_array() ? "]" : "}");
}

/// The k-th child of a list or an object.
const Json& child(const Json& json, std::size_t k) {
  return json.is_array() ? json[k] : std::next(json.begin(), static_cast<std::ptrdiff_t>(k)).value();
}

/// A map with the keys of `json`; the mapped values are `values`, in the order of the keys.
template <class T>
std::map<std::string, T> map_of(const Json& json, const std::vector<T>& values) {
  std::map<std::string, T> map;
  std::size_t k = 0;
  for (const auto& [key, part] : json.items()) map.emplace(key, values.at(k++));
  return map;
}

/// Calls `use(tree)`; the leaves of the tree are `leaf(json)`, its nodes tuples for lists and maps for objects.
template <class Leaf, class Use>
Json with_tree(const Json& json, const Leaf& leaf, const Use& use) {
  using L = decltype(leaf(json));
  const auto at = [&](std::size_t k) { return leaf(child(json, k)); };
  const std::string structure = structure_of(json);
  if (structure == "[**]") return use(std::tuple(at(0), at(1)));
  const Json& inner = child(json, 1);
  const L first_inside = leaf(child(inner, 0));
  if (structure == "[*[*]]") return use(std::tuple(at(0), std::make_tuple(first_inside)));
  if (structure == "[*{*}]") return use(std::tuple(at(0), map_of<L>(inner, {first_inside})));
  if (structure == "{*[*]}") {
    using Either = std::variant<L, std::vector<L>>;
    return use(map_of<Either>(json, {at(0), std::vector<L>{first_inside}}));
  }
  if (structure == "{*[*{*}]}") {
    using List = std::tuple<L, std::map<std::string, L>>;
    const Json& named = child(inner, 1);
    return use(
        map_of<std::variant<L, List>>(json, {at(0), List(first_inside, map_of<L>(named, {leaf(child(named, 0))}))}));
  }
  throw std::logic_error("no static type for a tree " + structure);
}

/// The results of the local replicas, each a tree, as one tree with components.
Json transposed(const Json& parts, int first) {
  const Json& front = parts.front();
  const bool is_leaf = front.contains("$tensor") || front.contains("$slices");
  if (is_leaf) return {{"$replicas", parts}, {"first", first}};
  Json result = front.is_array() ? Json::array() : Json::object();
  for (const auto& [key, unused] : front.items()) {
    Json column = Json::array();
    for (const Json& part : parts) column.push_back(front.is_array() ? part[std::stoul(key)] : part.at(key));
    if (front.is_array()) {
      result.push_back(transposed(column, first));
    } else {
      result[key] = transposed(column, first);
    }
  }
  return result;
}

std::string op_of(const Json& step) { return step["op"].get<std::string>(); }

// ---- cross-replica ----

Json reduce_along(World& world, const Json& step, const auto& value) {
  if (!step.contains("axis") || step["axis"].is_null()) return result_of(world.strategy().reduce(op_of(step), value));
  if (step["axis"].is_number()) return result_of(world.strategy().reduce(op_of(step), value, step["axis"].get<int>()));
  return result_of(world.strategy().reduce(op_of(step), value, step["axis"].get<std::vector<int>>()));
}

Json reduce_value(World& world, const Json& step) {
  const Json& value = step["value"];
  if (is_tree(value)) {
    return with_tree(
        value, [&](const Json& json) { return world.operand_as<P>(json); },
        [&](const auto& tree) { return result_of(world.strategy().reduce(op_of(step), tree)); });
  }
  return std::visit(
      [&]<class Leaf>(const Leaf& leaf) -> Json {
        if constexpr (std::same_as<Leaf, Variable>) {
          return result_of(world.strategy().reduce(op_of(step), leaf));
        } else if constexpr (std::same_as<Leaf, IndexedSlices> || std::same_as<Leaf, SparseP>) {
          throw std::logic_error("no case reduces sparse rows by reduce");
        } else {
          return reduce_along(world, step, leaf);
        }
      },
      world.operand(value));
}

Json reduce_call(World& world, const Json& step) {
  return world.in_context(step, [&] { return reduce_value(world, step); });
}

Json densified(const Mirrored<IndexedSlices>& value) {
  std::vector<Tensor> copies;
  for (int i = 0; i < value.size(); ++i) copies.push_back(to_dense(value.component(i)));
  return result_of(Mirrored<Tensor>(std::move(copies)));
}

/// reduce_to, with the destinations of the step; by default the value itself is the destination.
Json reduce_to_call(World& world, const Json& step) {
  auto& extended = world.strategy().extended();
  const Scope scope = world.strategy().scope();
  return std::visit(
      [&]<class Leaf>(const Leaf& leaf) -> Json {
        if constexpr (std::same_as<Leaf, SparseP>) {
          const Mirrored<IndexedSlices> result = extended.reduce_to(op_of(step), leaf, leaf);
          return step.value("dense", false) ? densified(result) : result_of(result);
        } else if constexpr (std::same_as<Leaf, P>) {
          const std::string to = step.value("destinations", "");
          if (to.starts_with("cpu:")) return result_of(extended.reduce_to(op_of(step), leaf, to).value());
          if (world.given().contains("variables") && world.given()["variables"].contains(to))
            return result_of(extended.reduce_to(op_of(step), leaf, world.variable(to)));
          return result_of(extended.reduce_to(op_of(step), leaf, leaf));
        } else {
          throw std::logic_error("reduce_to takes a value with a component for each replica");
        }
      },
      world.operand(step["value"]));
}

/// Values of any kind, each with its own destinations.
Json batch_reduce_to_call(World& world, const Json& step) {
  std::vector<ReducePair> pairs;
  for (const Json& name : step["values"]) {
    std::visit(
        [&]<class Leaf>(const Leaf& leaf) {
          if constexpr (std::same_as<Leaf, IndexedSlices>) {
            throw std::logic_error("no case reduces one sparse value");
          } else if constexpr (std::same_as<Leaf, Tensor>) {
            pairs.push_back({leaf, "cpu:0"});
          } else {
            pairs.push_back({leaf, leaf});
          }
        },
        world.operand(name));
  }
  const Scope scope = world.strategy().scope();
  Json results = Json::array();
  for (const ReducedValue& result : world.strategy().extended().batch_reduce_to(op_of(step), pairs)) {
    results.push_back(std::visit(
        [&]<class Result>(const Result& one) {
          if constexpr (std::same_as<Result, Mirrored<IndexedSlices>>) {
            return step.value("dense", false) ? densified(one) : result_of(one);
          } else {
            return result_of(one);
          }
        },
        result));
  }
  return results;
}

Json gather_value(World& world, const Json& step) {
  const int axis = step["axis"].get<int>();
  return std::visit(
      [&]<class Leaf>(const Leaf& leaf) -> Json {
        if constexpr (std::same_as<Leaf, P> || std::same_as<Leaf, SparseP> || std::same_as<Leaf, Tensor>) {
          return result_of(world.strategy().gather(leaf, axis));
        } else {
          throw std::logic_error("no case gathers such a value");
        }
      },
      world.operand(step["value"]));
}

Json gather_call(World& world, const Json& step) {
  return world.in_context(step, [&] { return gather_value(world, step); });
}

Json broadcast_to_call(World& world, const Json& step) {
  const Scope scope = world.strategy().scope();
  const Variable& to = world.variable(step["destinations"].get<std::string>());
  return result_of(world.strategy().extended().broadcast_to(std::get<Tensor>(world.operand(step["value"])), to));
}

// ---- in a step function ----

/// Calls `call(replica, tree of this replica's tensors)` on every replica; returns the results, one component per
/// replica.
template <class Call>
Json on_replicas(World& world, const Json& value, const Call& call) {
  std::vector<Json> parts(static_cast<std::size_t>(world.local_replicas()));
  const auto keep = [&](ReplicaContext& replica, const Json& part) {
    parts[static_cast<std::size_t>(replica.local_replica())] = part;
  };
  if (is_tree(value)) {
    with_tree(
        value, [&](const Json& json) { return world.per_replica(json); },
        [&](const auto& tree) {
          world.strategy().run(
              [&](ReplicaContext& replica, const auto& mine) { keep(replica, result_of(call(replica, mine))); }, tree);
          return Json();
        });
  } else if (const Value operand = world.operand(value); std::holds_alternative<SparseP>(operand)) {
    world.strategy().run(
        [&](ReplicaContext& replica, const IndexedSlices& mine) { keep(replica, result_of(call(replica, mine))); },
        std::get<SparseP>(operand));
  } else {
    world.strategy().run(
        [&](ReplicaContext& replica, const Tensor& mine) { keep(replica, result_of(call(replica, mine))); },
        world.per_replica(value));
  }
  return transposed(parts, world.first_replica());
}

Json all_reduce_call(World& world, const Json& step) {
  return on_replicas(world, step["value"], [&]<class Tree>(ReplicaContext& replica, const Tree& mine) {
    if constexpr (std::same_as<Tree, IndexedSlices>) {
      const IndexedSlices total = replica.all_reduce(op_of(step), mine);
      return step.value("dense", false) ? result_of(to_dense(total)) : result_of(total);
    } else {
      return replica.all_reduce(op_of(step), mine);
    }
  });
}

Json all_reduce_gradient_call(World& world, const Json& step) {
  return on_replicas(world, step["upstream"], [&]<class Tree>(ReplicaContext& replica, const Tree& upstream) {
    if constexpr (std::same_as<Tree, Tensor>) {
      return Tensor(all_reduce_gradient(replica, op_of(step), upstream));
    } else {
      throw std::logic_error("the gradients of the cases are tensors");
      return Tensor();
    }
  });
}

Json all_gather_call(World& world, const Json& step) {
  return on_replicas(world, step["value"], [&](ReplicaContext& replica, const auto& mine) {
    return replica.all_gather(mine, step["axis"].get<int>());
  });
}

}  // namespace

void add_reduce_calls(Calls& calls) {
  calls["reduce"] = reduce_call;
  calls["reduce_to"] = reduce_to_call;
  calls["batch_reduce_to"] = batch_reduce_to_call;
  calls["gather"] = gather_call;
  calls["broadcast_to"] = broadcast_to_call;
  calls["all_reduce"] = all_reduce_call;
  calls["all_reduce_gradient"] = all_reduce_gradient_call;
  calls["all_gather"] = all_gather_call;
}

}  // namespace lockstep::conformance
