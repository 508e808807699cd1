// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Cases about reductions that are described by a sentence.

#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <cmath>
#include <tuple>

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;

template <class Fn>
Json on_x(World& world, const Fn& fn) {
  return result_of(world.strategy().run(fn, world.operand_as<P>("x")));
}

Json reduce_by_aggregation(World& world, VariableAggregation aggregation) {
  const P x = world.operand_as<P>("x");
  return result_of(world.strategy().extended().reduce_to(reduce_op_of(aggregation), x, x));
}

Json name_of(VariableAggregation aggregation) {
  const std::string_view name = to_string(reduce_op_of(aggregation));
  return name == "sum" ? "SUM" : name == "mean" ? "MEAN" : std::string(name);
}

}  // namespace

void add_reduce_scripts(Scripts& scripts) {
  scripts["P131"] = [] {
    return Script{[](World& world) -> Json {
      return std::signbit(number_in(world.strategy().reduce(ReduceOp::sum, world.operand_as<P>("x"))));
    }};
  };
  scripts["P138"] = [] {
    return Script{[](World& world) {
      return on_x(world, [](ReplicaContext& replica, const Tensor& x) {
        const Tensor y = replica.all_gather(x, 0);
        return all_gather_gradient(replica, 2 * y, 0, x.shape()[0]);
      });
    }};
  };
  scripts["P142"] = [] {
    return Script{
        [](World& world) { return reduce_by_aggregation(world, VariableAggregation::none); },
        [](World& world) { return reduce_by_aggregation(world, VariableAggregation::only_first_replica); },
        [](World&) -> Json { return {name_of(VariableAggregation::sum), name_of(VariableAggregation::mean)}; },
        [](World&) { return name_of(VariableAggregation::none); },
        [](World&) { return name_of(VariableAggregation::only_first_replica); }};
  };
  scripts["P154"] = [] {
    return Script{[](World& world) {
      return result_of(get_replica_context()->all_reduce(ReduceOp::sum, world.operand_as<Tensor>("x")));
    }};
  };
  scripts["P158"] = [] {
    return Script{[](World& world) {
      return on_x(world, [](ReplicaContext& replica, const Tensor& x) {
        const Tensor a = replica.all_reduce(ReduceOp::sum, x);
        return std::tuple(a, replica.all_reduce(ReduceOp::sum, a + x));
      });
    }};
  };
  scripts["P159"] = [] {
    return Script{[](World& world) {
      return on_x(world, [](ReplicaContext& replica, const Tensor& x) {
        const Tensor total = replica.all_reduce(ReduceOp::sum, x);
        return all_reduce_gradient(replica, ReduceOp::sum, 2 * total);
      });
    }};
  };
}

}  // namespace lockstep::conformance
