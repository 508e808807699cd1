// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Cases about variables that are described by a sentence.

#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;

SentenceStep components_step(const char* name) {
  return [name](World& world) { return result_of(world.components(name)); };
}

Tensor f32(float value) { return Tensor::scalar(value); }

float id_plus(const ReplicaContext& replica, float number) {
  return static_cast<float>(replica.replica_id_in_sync_group()) + number;
}

void add_creation_scripts(Scripts& scripts) {
  scripts["P56"] = [] {
    return Script{[](World& world) -> Json {
      const Scope scope = world.strategy().scope();
      std::random_device seed;
      const auto v = world.strategy().variable<float>([&] {
        std::mt19937 random(seed());
        std::normal_distribution<float> normal;
        return std::vector<float>{normal(random), normal(random), normal(random)};
      });
      const Tensor first = v.component(0).to(Device{});
      for (int i = 1; i < v.component_count(); ++i) {
        const Tensor copy = v.component(i).to(Device{});
        if (std::memcmp(copy.data(), first.data(), first.byte_count()) != 0) return false;
      }
      return v.component_count() > 1;
    }};
  };
  scripts["P57"] = [] {
    return Script{[](World& world) -> Json {
      world.strategy().run([&](ReplicaContext& replica) {
        VariableOptions options;
        options.name = replica.replica_id_in_sync_group() == 0 ? "foo" : "bar";
        static_cast<void>(world.strategy().variable(f32(1), options));
      });
      return "made";
    }};
  };
  scripts["P106"] = [] {
    return Script{[](World& world) -> Json {
      const Scope scope = world.strategy().scope();
      const Variable v = world.strategy().variable(f32(0));
      Json names = Json::array();
      for (int i = 0; i < v.component_count(); ++i) names.push_back(v.component(i).tensor_name());
      return names;
    }};
  };
  scripts["P107"] = [] {
    return Script{[](World& world) -> Json {
      const Scope scope = world.strategy().scope();
      std::optional<Variable> lazy;
      const auto library_code = [&] {
        if (!lazy) lazy = get_strategy().variable(f32(1));
        return *lazy;
      };
      const Variable first = library_code();
      const Variable second = library_code();
      return {first == second, second.component_count() == world.local_replicas()};
    }};
  };
  scripts["P202"] = [] {
    return Script{[](World& world) -> Json {
      std::optional<Variable> made;
      const auto read = world.strategy().run([&](ReplicaContext& replica) {
        const Variable v = world.strategy().variable(f32(id_plus(replica, 1)));
        if (replica.local_replica() == 0) made = v;
        return v.read();
      });
      return {result_of(read), result_of(world.components(*made))};
    }};
  };
  scripts["P208"] = [] {
    return Script{[](World& world) {
      const Scope scope = world.strategy().scope();
      return result_of(world.strategy().variable(f32(world.rank() == 0 ? 10.0F : 20.0F)).read());
    }};
  };
}

void add_ownership_scripts(Scripts& scripts) {
  scripts["P60"] = [] {
    return Script{
        [](World& world) -> Json { return world.strategy().extended().variable_created_in_scope(world.variable("v")); },
        [](World& world) -> Json {
          const Variable outside = get_strategy().variable(f32(0));
          return world.strategy().extended().variable_created_in_scope(outside);
        }};
  };
  scripts["P61"] = [] {
    return Script{[](World& world) -> Json {
      const Variable outside = get_strategy().variable(f32(0));
      const Scope scope = world.strategy().scope();
      const auto guard = world.strategy().extended().colocate_vars_with(outside);
      return "colocated";
    }};
  };
  scripts["P201"] = [] {
    return Script{[](World& world) -> Json {
                    const Variable& v = world.variable("v");
                    Json same = Json::array();
                    for (int i = 0; i < v.component_count(); ++i)
                      same.push_back(world.strategy().extended().value_container(v.component(i)) == v);
                    return same;
                  },
                  [](World& world) -> Json {
                    const Tensor plain = f32(3);
                    const Tensor container = world.strategy().extended().value_container(plain);
                    return plain.data() == container.data();
                  }};
  };
  scripts["P203"] = [] {
    return Script{[](World& world) -> Json {
      const Scope scope = world.strategy().scope();
      const Variable v = world.strategy().variable(f32(0));
      const auto guard = world.strategy().extended().colocate_vars_with(v);
      const Variable slot = world.strategy().variable(f32(0));
      return {slot.synchronization() == VariableSynchronization::on_write, result_of(slot.component_count())};
    }};
  };
  scripts["P200"] = [] {
    return Script{[](World& world) -> Json {
                    return {world.variable("v").trainable(), world.variable("w").trainable(),
                            world.variable("x").trainable()};
                  },
                  [](World& world) -> Json {
                    const Variable& v = world.variable("v");
                    return {std::string(to_string(v.dtype())), v.shape().extents()};
                  }};
  };
}

void add_arithmetic_scripts(Scripts& scripts) {
  scripts["P196"] = [] {
    struct Typed {
      explicit Typed(World& world) : v(world.variable("v")), w(world.variable("w")), scope(world.strategy().scope()) {}
      MirroredVariable<float> v;
      SyncOnReadVariable<float> w;
      Scope scope;
    };
    return Script{[](World& world) {
                    const SyncOnReadVariable<float> w(world.variable("w"));
                    world.strategy().run([&](ReplicaContext& replica) { w.assign(id_plus(replica, 1)); });
                    const Typed in_scope(world);
                    return result_of(in_scope.v * 2 + 1);
                  },
                  [](World& world) {
                    const Typed in_scope(world);
                    return result_of(in_scope.w * 2);
                  },
                  [](World& world) {
                    const Typed in_scope(world);
                    return result_of(in_scope.v + in_scope.w);
                  },
                  [](World& world) {
                    const MirroredVariable<float> v(world.variable("v"));
                    const SyncOnReadVariable<float> w(world.variable("w"));
                    return result_of(world.strategy().run([&] { return v + w; }));
                  }};
  };
  scripts["P197"] = [] {
    return Script{[](World& world) {
                    const SyncOnReadVariable<float> v(world.variable("v"));
                    return result_of(world.strategy().run([&](ReplicaContext& replica) {
                      v.assign(v * 2 + id_plus(replica, 1));
                      static_cast<void>(v.value());
                      v.assign_add(v);
                      return v.value();
                    }));
                  },
                  [](World& world) {
                    const Scope scope = world.strategy().scope();
                    return result_of(world.variable("v").read());
                  }};
  };
  scripts["P199"] = [] {
    return Script{[](World& world) {
                    world.variable("v").assign(f32(4));
                    return result_of(world.variable("v").read());
                  },
                  components_step("v")};
  };
}

}  // namespace

void add_variable_scripts(Scripts& scripts) {
  add_creation_scripts(scripts);
  add_ownership_scripts(scripts);
  add_arithmetic_scripts(scripts);
}

}  // namespace lockstep::conformance
