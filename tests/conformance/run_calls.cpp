// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The step functions that the cases name by their text, and the calls that run them.

#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <stdexcept>
#include <tuple>

namespace lockstep::conformance {
namespace {

using TensorMap = std::map<std::string, Tensor>;

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }
int num_replicas() { return get_replica_context()->num_replicas_in_sync(); }

/// `strategy.run(fn, argument)`, with the argument's own static type.
template <class Fn>
Json run_with(World& world, const Json& argument, const Fn& fn) {
  return std::visit(
      [&]<class Argument>(const Argument& value) -> Json {
        if constexpr (std::same_as<Argument, Tensor> || std::same_as<Argument, PerReplica<Tensor>>) {
          return result_of(world.strategy().run(fn, value));
        } else {
          throw std::logic_error("this function takes tensors");
        }
      },
      world.operand(argument));
}

using RunFunction = std::function<Json(World&, const Json& args)>;

std::map<std::string, RunFunction> functions_of_one_argument() {
  return {
      {"(x) -> 2*x",
       [](World& world, const Json& args) { return run_with(world, args[0], [](const Tensor& x) { return 2 * x; }); }},
      {"(x) -> x*2",
       [](World& world, const Json& args) { return run_with(world, args[0], [](const Tensor& x) { return 2 * x; }); }},
      {"(x) -> {'a': x-1, 'b': x+1}",
       [](World& world, const Json& args) {
         return run_with(world, args[0], [](const Tensor& x) { return TensorMap{{"a", x - 1}, {"b", x + 1}}; });
       }},
      {"(x) -> (2*x, [x])",
       [](World& world, const Json& args) {
         return run_with(world, args[0],
                         [](const Tensor& x) { return std::tuple(2 * x, std::vector<Tensor>{x.clone()}); });
       }},
      {"(x) -> (2*x, num_replicas)",
       [](World& world, const Json& args) {
         return run_with(world, args[0], [](const Tensor& x) { return std::tuple(2 * x, num_replicas()); });
       }},
      {"(x) -> sum(x)",
       [](World& world, const Json& args) {
         return run_with(world, args[0], [](const Tensor& x) { return sum_of(x); });
       }},
      {"(x) -> 10*x + float(replica_id)",
       [](World& world, const Json& args) {
         return run_with(world, args[0], [](const Tensor& x) { return 10 * x + replica_id(); });
       }},
  };
}

/// (t[0], t[1]['k'], t[1]['v'][0]) of t = [p, {"k": 7, "v": [p]}]. The 7 is one value of the caller, which each
/// replica returns, so that the result has one component per replica.
Json pick_from_tree(World& world, const Json& args) {
  using P = PerReplica<Tensor>;
  const auto leaf = [&](const Json& json) { return std::get<P>(world.operand(json)); };
  const Json& tree = args[0];
  const std::tuple<P, std::tuple<Tensor, std::vector<P>>> argument{leaf(tree[0]),
                                                                   {tensor_of(tree[1]["k"]), {leaf(tree[1]["v"][0])}}};
  return result_of(world.strategy().run(
      [](const std::tuple<Tensor, std::tuple<Tensor, std::vector<Tensor>>>& t) {
        const auto& [first, second] = t;
        return std::tuple(first, std::get<0>(second), std::get<1>(second)[0]);
      },
      argument));
}

std::map<std::string, RunFunction> other_functions() {
  return {
      {"() -> identity(replica_id)",
       [](World& world, const Json&) { return result_of(world.strategy().run(replica_id)); }},
      {"() -> num_replicas", [](World& world, const Json&) { return result_of(world.strategy().run(num_replicas)); }},
      {"() -> [1.0, 2.0] if replica_id == 0 else [1.0, 2.0, 3.0]",
       [](World& world, const Json&) {
         return result_of(world.strategy().run([] {
           std::vector<Tensor> list{Tensor::scalar(1.0F), Tensor::scalar(2.0F)};
           if (replica_id() != 0) list.push_back(Tensor::scalar(3.0F));
           return list;
         }));
       }},
      {"() -> None",
       [](World& world, const Json&) {
         world.strategy().run([] {});
         return Json();
       }},
      {"() -> (None, identity(replica_id))",
       [](World& world, const Json&) {
         const auto [none, id] = world.strategy().run([] { return std::tuple(std::tuple<>(), replica_id()); });
         static_assert(std::same_as<std::remove_cvref_t<decltype(none)>, std::tuple<>>);
         return Json{Json(), result_of(id)};
       }},
      {"() -> [identity(replica_id), [identity(replica_id)]]",
       [](World& world, const Json&) {
         return result_of(world.strategy().run([] { return std::tuple(replica_id(), std::tuple(replica_id())); }));
       }},
      {"() -> {}",
       [](World& world, const Json&) { return result_of(world.strategy().run([] { return TensorMap(); })); }},
      {"(a, b) -> a + 2*b + 2",
       [](World& world, const Json& args) {
         return result_of(world.strategy().run([](const Tensor& a, const Tensor& b) { return a + 2 * b + 2; },
                                               world.operand_as<PerReplica<Tensor>>(args[0]),
                                               world.operand_as<PerReplica<Tensor>>(args[1])));
       }},
      {"(t) -> (t[0], t[1]['k'], t[1]['v'][0])", pick_from_tree},
  };
}

Json run_step(World& world, const Json& step) {
  static const auto functions = [] {
    auto all = functions_of_one_argument();
    all.merge(other_functions());
    return all;
  }();
  const auto text = step["fn"].get<std::string>();
  const auto found = functions.find(text);
  if (found == functions.end()) throw std::logic_error("no code for " + text);
  const Json args = step.value("args", Json::array());
  return found->second(world, args);
}

/// run of replica_id whose result a later step uses.
Json run_and_keep(World& world, const Json& step) {
  if (!step.contains("as")) return run_step(world, step);
  const auto ids = world.strategy().run([] { return Tensor::scalar(replica_id()); });
  if (step["fn"] != "() -> identity(replica_id)") throw std::logic_error("only replica ids are kept");
  world.keep(step["as"].get<std::string>(), ids);
  return result_of(ids);
}

Json distribute_values(World& world, const Json& step) {
  static const std::map<std::string, std::function<Tensor(const ValueContext&)>> functions = {
      {"() -> num_replicas", [](const ValueContext& context) { return Tensor::scalar(context.num_replicas_in_sync); }},
      {"() -> replica_id",
       [](const ValueContext& context) { return Tensor::scalar(context.replica_id_in_sync_group); }},
      {"() -> 1.0", [](const ValueContext&) { return Tensor::scalar(1.0F); }},
      {"() -> [3.0, 2.0, 1.0][replica_id]",
       [](const ValueContext& context) {
         return Tensor::scalar(3.0F - static_cast<float>(context.replica_id_in_sync_group));
       }},
      {"() -> replica_id * 10 + num_replicas",
       [](const ValueContext& context) {
         return Tensor::scalar(context.replica_id_in_sync_group * 10 + context.num_replicas_in_sync);
       }},
  };
  const auto values =
      world.strategy().experimental_distribute_values_from_function(functions.at(step["fn"].get<std::string>()));
  if (step.contains("as")) world.keep(step["as"].get<std::string>(), values);
  return result_of(values);
}

/// Trees of the cases, each with its static type.
Json local_results(World& world, const Json& step) {
  using P = PerReplica<Tensor>;
  const Json& value = step["value"];
  const Strategy& strategy = world.strategy();
  if (value.is_array()) {  // ["p", 5, {"k": "p"}]
    const std::tuple<P, Tensor, std::map<std::string, P>> tree{
        world.operand_as<P>(value[0]), tensor_of(value[1]), {{"k", world.operand_as<P>(value[2]["k"])}}};
    return result_of(strategy.experimental_local_results(tree));
  }
  const Json& named =
      value.is_string() && world.given().contains(value) ? world.given()[value.get<std::string>()] : value;
  if (named.is_object() && named.contains("a")) {
    return std::visit(
        [&]<class Leaf>(const Leaf& leaf) -> Json {
          if constexpr (std::same_as<Leaf, P> || std::same_as<Leaf, Tensor>) {
            return result_of(strategy.experimental_local_results(std::map<std::string, Leaf>{{"a", leaf}}));
          } else {
            throw std::logic_error("a tree of tensors is expected");
          }
        },
        world.operand(named["a"]));
  }
  return std::visit([&](const auto& leaf) { return result_of(strategy.experimental_local_results(leaf)); },
                    world.operand(value));
}

}  // namespace

void add_run_calls(Calls& calls) {
  calls["run"] = run_and_keep;
  calls["distribute_values_from_function"] = distribute_values;
  calls["local_results"] = local_results;
}

}  // namespace lockstep::conformance
