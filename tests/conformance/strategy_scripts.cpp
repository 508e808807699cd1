// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies themselves: their devices, their options, and what happens when ranks disagree.

#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"
#include "conformance/user_error.hpp"

#include <lockstep/lockstep.hpp>

#include <span>
#include <string>
#include <vector>

namespace lockstep::conformance {
namespace {

using Names = std::vector<std::string>;

Json device_names(std::span<const Device> devices) {
  Json names = Json::array();
  for (const Device device : devices) names.push_back(to_string(device));
  return names;
}

SentenceStep makes_mirrored(const Names& devices) {
  return [devices](World&) {
    MirroredStrategy strategy(devices);
    return device_names(strategy.extended().worker_devices());
  };
}

Json count_of_replicas(World& world) { return result_of(world.strategy().num_replicas_in_sync()); }
Json worker_devices(World& world) { return device_names(world.strategy().extended().worker_devices()); }
Json parameter_devices(World& world) { return device_names(world.strategy().extended().parameter_devices()); }
Json cluster_resolver(World& world) {
  return world.strategy().cluster_resolver() == nullptr ? Json() : Json("a resolver");
}

void add_device_scripts(Scripts& scripts) {
  scripts["P177"] = [] {
    return Script{count_of_replicas, worker_devices, parameter_devices, cluster_resolver, [](World& world) {
                    return result_of(world.strategy().extended().experimental_require_static_shapes());
                  }};
  };
  scripts["P178"] = [] {
    return Script{makes_mirrored({"cpu:0", "cpu:0"}), makes_mirrored({"CPU:0", "/device:cpu:0"}),
                  makes_mirrored({"cpu:0", "/device:CPU:1"})};
  };
  scripts["P179"] = [] {
    return Script{count_of_replicas, worker_devices, parameter_devices,
                  [](World& world) { return device_names(world.strategy().extended().non_slot_devices({})); }};
  };
  scripts["P180"] = [] { return Script{count_of_replicas, worker_devices, parameter_devices, cluster_resolver}; };
  scripts["P279"] = [] { return Script{makes_mirrored({})}; };
}

// ---- ranks that disagree ----

Json all_reduce_one(World& world, const Tensor& mine, const CommunicationOptions& options = {}) {
  return result_of(
      world.strategy().run([&](ReplicaContext& replica) { return replica.all_reduce(ReduceOp::sum, mine, options); }));
}

/// Only rank 0 calls all_reduce. Rank 1 makes no call, which would be detected as a mismatch, before rank 0 has its
/// error.
Json all_reduce_on_rank_0(World& world) {
  const Communicator aside = world.strategy().communicator().duplicate({});
  if (world.rank() != 0) {
    aside.barrier();
    return "ok";
  }
  const CommunicationOptions options{.timeout_seconds = world.given()["timeout_seconds"].get<double>()};
  try {
    const Json result = all_reduce_one(world, Tensor::scalar(1.0F), options);
    aside.barrier();
    return result;
  } catch (const Error&) {
    aside.barrier();
    throw;
  }
}

void add_failure_scripts(Scripts& scripts) {
  scripts["P78"] = [] { return Script{all_reduce_on_rank_0}; };
  scripts["P271"] = [] {
    return Script{[](World& world) {
      const Tensor narrow = Tensor::from(std::vector<float>{1});
      const Tensor wide = Tensor::from(std::vector<double>{1});
      return all_reduce_one(world, world.rank() == 0 ? narrow : wide);
    }};
  };
  scripts["P272"] = [] {
    return Script{[](World& world) {
      const Tensor pair = Tensor::from(std::vector<float>{1, 2});
      if (world.rank() == 0) return all_reduce_one(world, pair);
      return result_of(world.strategy().run([&](ReplicaContext& replica) { return replica.all_gather(pair, 0); }));
    }};
  };
  scripts["P273"] = [] {
    return Script{[](World& world) {
      return result_of(world.strategy().run([&](ReplicaContext& replica) {
        if (world.rank() == 1) throw UserError("boom");
        return replica.all_reduce(ReduceOp::sum, Tensor::scalar(1.0F));
      }));
    }};
  };
}

// ---- options ----

Json described(const CommunicationOptions& options) {
  return {result_of(static_cast<std::int64_t>(options.bytes_per_pack)),
          options.timeout_seconds.has_value() ? result_of(*options.timeout_seconds) : Json(),
          std::string(to_string(options.implementation))};
}

void add_strategy_option_scripts(Scripts& scripts) {
  scripts["P77"] = [] {
    return Script{[](World&) -> Json {
                    CommunicationOptions options;
                    options.bytes_per_pack = -1;
                    return "made";
                  },
                  [](World&) -> Json {
                    const AllReduceCrossDeviceOps ops(-1);
                    return "made";
                  }};
  };
  scripts["P260"] = [] {
    return Script{[](World&) {
                    const CommunicationOptions a{.bytes_per_pack = 8,
                                                 .timeout_seconds = 5.0,
                                                 .implementation = CommunicationImplementation::ring};
                    CommunicationOptions b;
                    b.timeout_seconds = 7.0;
                    return described(a.merged(b));
                  },
                  [](World&) { return described(CommunicationOptions{}); },
                  [](World&) -> Json { return std::string(to_string(parse_communication_implementation("RING"))); },
                  [](World&) -> Json { return std::string(to_string(parse_communication_implementation("BOGUS"))); }};
  };
}

void add_logical_device_scripts(Scripts& scripts) {
  scripts["P97"] = [] {
    const auto split = [](const std::vector<int>& dimensions) {
      return [dimensions](World& world) {
        return result_of(
            world.strategy().experimental_split_to_logical_devices(world.operand_as<Tensor>("x"), dimensions));
      };
    };
    return Script{
        split({1, 2, 4, 1}), split({1, 1}),
        [](World& world) {
          return result_of(world.strategy().experimental_assign_to_logical_device(world.operand_as<Tensor>("x"), 1));
        },
        split({1, 1, 1, 1})};
  };
}

}  // namespace

void add_strategy_scripts(Scripts& scripts) {
  add_device_scripts(scripts);
  add_failure_scripts(scripts);
  add_strategy_option_scripts(scripts);
  add_logical_device_scripts(scripts);
}

void add_option_calls(Calls& calls) {
  calls["group_by_size"] = [](World&, const Json& step) -> Json {
    const auto bytes = step["bytes"].get<std::vector<std::int64_t>>();
    Json groups = Json::array();
    for (const auto& group : group_by_size(bytes, step["bytes_per_pack"].get<std::int64_t>())) {
      Json sizes = Json::array();
      for (const std::int64_t size : group) sizes.push_back(size);
      groups.push_back(sizes);
    }
    return groups;
  };
}

}  // namespace lockstep::conformance
