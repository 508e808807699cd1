// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Cases about run, merge_call and update that are described by a sentence.

#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"
#include "conformance/user_error.hpp"

#include <lockstep/lockstep.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

namespace lockstep::conformance {

using P = PerReplica<Tensor>;

/// Arguments by name, as an aggregate.
struct NamedArguments {
  Tensor a;
  P b;
};

}  // namespace lockstep::conformance

template <>
struct lockstep::tree_members<lockstep::conformance::NamedArguments> {
  static constexpr auto pointers =
      std::tuple(&lockstep::conformance::NamedArguments::a, &lockstep::conformance::NamedArguments::b);
};

namespace lockstep::conformance {
namespace {

Json ids_of_all(World& world) { return replica_ids(world.strategy()); }

Tensor id_tensor(const ReplicaContext& replica, float plus = 0) {
  return Tensor::scalar(static_cast<float>(replica.replica_id_in_sync_group()) + plus);
}

/// The sum of the replicas' values, computed in a merge_call.
Tensor merged_sum(ReplicaContext& replica, const Tensor& value) {
  return replica.merge_call([](Strategy& strategy, const P& values) { return strategy.reduce(ReduceOp::sum, values); },
                            value);
}

// ---- run ----

Json total_of_ten_runs(World& world) {
  int total = 0;
  for (int i = 0; i < 10; ++i) total += world.strategy().run([](int x) { return 2 * x; }, i).value();
  return result_of(total);
}

/// (one object captured from outside, a tensor of the replica's own, v)
Json three_kinds_of_result(World& world) {
  const auto captured = std::make_shared<int>(7);
  const Variable& v = world.variable("v");
  const auto [objects, ids, variable] = world.strategy().run([&](ReplicaContext& replica) {
    return std::tuple(captured, Tensor::scalar(replica.replica_id_in_sync_group()), v);
  });
  Json same = Json::array();
  for (int i = 0; i < objects.size(); ++i) {
    same.push_back(objects.component(i) == captured ? "same object" : "another object");
  }
  return {Json{{"$replicas", same}, {"first", objects.first_replica()}}, result_of(ids), result_of(variable)};
}

void add_scripts_of_run(Scripts& scripts) {
  scripts["P19"] = [] { return Script{total_of_ten_runs}; };
  scripts["P23"] = [] { return Script{three_kinds_of_result}; };
  scripts["P25"] = [] {
    return Script{[](World& world) -> Json {
                    world.strategy().run([](ReplicaContext& replica) {
                      if (replica.replica_id_in_sync_group() == 1) throw UserError("boom");
                    });
                    return "ok";
                  },
                  ids_of_all};
  };
  scripts["P27"] = [] {
    return Script{[](World& world) {
      return result_of(
          world.strategy().run([](const Tensor& x) { return 2 * x; }, world.operand_as<Tensor>("x"), RunOptions{}));
    }};
  };
  scripts["P161"] = [] {
    return Script{[](World& world) {
      return result_of(world.strategy().run(
          [](const std::tuple<Tensor, Tensor>& named) {
            const auto& [a, b] = named;
            return a.to(b.device()) - b;
          },
          NamedArguments{.a = Tensor::scalar(10.0F), .b = world.operand_as<P>("x")}));
    }};
  };
  scripts["P162"] = [] {
    return Script{
        [](World& world) {
          return result_of(world.strategy().run([](const Variable& v, const Tensor& x) { return v.read() * x; },
                                                world.variable("v"), world.operand_as<P>("x")));
        },
        [](World& world) { return result_of(world.strategy().run([&] { return world.variable("v"); })); }};
  };
  scripts["P164"] = [] {
    return Script{[](World& world) -> Json {
      world.strategy().run([&] { world.strategy().run([] {}); });
      return "ok";
    }};
  };
  scripts["P165"] = [] {
    return Script{[](World& world) {
      return result_of(world.strategy().run([](ReplicaContext& replica) {
        return std::map<std::string, int>{{replica.replica_id_in_sync_group() == 0 ? "a" : "b", 1}};
      }));
    }};
  };
}

// ---- merge_call ----

void add_scripts_of_merging(Scripts& scripts) {
  scripts["P29"] = [] {
    return Script{[](World& world) -> Json {
      std::atomic<int> calls = 0;
      const auto received = world.strategy().run([&](ReplicaContext& replica) {
        return replica.merge_call(
            [&](Strategy& strategy, const PerReplica<int>& ids) {
              ++calls;
              return strategy.reduce(ReduceOp::sum, ids);
            },
            replica.replica_id_in_sync_group());
      });
      return {result_of(calls.load()), result_of(received)};
    }};
  };
  scripts["P30"] = [] {
    return Script{[](World& world) {
      return result_of(world.strategy().run([](ReplicaContext& replica) {
        return replica.merge_call([](Strategy&) { return PerReplica<int>({10, 20}); });
      }));
    }};
  };
  scripts["P31"] = [] {
    return Script{[](World& world) -> Json {
      world.strategy().run([](ReplicaContext& replica) {
        if (replica.replica_id_in_sync_group() == 0) replica.merge_call([](Strategy&) {});
      });
      return "ok";
    }};
  };
  scripts["P32"] = [] {
    return Script{[](World& world) -> Json {
      const auto [is_default, sum] = get_replica_context()->merge_call(
          [&](Strategy& strategy, const PerReplica<int>& x) {
            return std::tuple(&strategy == &world.strategy(), x.value() + 1);
          },
          4);
      return {result_of(is_default), result_of(sum)};
    }};
  };
  scripts["P33"] = [] {
    const auto inside = std::make_shared<std::atomic<int>>(0);
    struct Inside {
      explicit Inside(std::atomic<int>& counter) : count(counter) { ++count; }
      ~Inside() { --count; }
      std::atomic<int>& count;
    };
    return Script{[inside](World& world) -> Json {
                    world.strategy().run([&](ReplicaContext& replica) {
                      const Inside counted(*inside);
                      replica.merge_call([](Strategy&) { throw UserError("boom"); });
                    });
                    return "ok";
                  },
                  [inside](World&) { return result_of(inside->load()); }, ids_of_all};
  };
  scripts["P34"] = [] {
    return Script{[](World& world) {
      return result_of(world.strategy().run([](ReplicaContext& replica) {
        const int received = replica.merge_call([](Strategy& strategy) {
          return strategy.run([](ReplicaContext& inner) { return 10 * (inner.replica_id_in_sync_group() + 1); });
        });
        return received + replica.replica_id_in_sync_group();
      }));
    }};
  };
  scripts["P181"] = [] {
    return Script{[](World& world) -> Json {
      Json kinds;
      world.strategy().run(
          [&](ReplicaContext& replica, const Tensor& x) {
            replica.merge_call(
                // a literal that every replica passes is a separate value of each replica
                [&](Strategy&, const P& a, const PerReplica<int>& b, const Variable& k) {
                  kinds = {a.size() == 2 ? "per_replica" : "another", result_of(b), result_of(k)};
                },
                x, 7, world.variable("v"));
          },
          world.operand_as<P>("x"));
      return kinds;
    }};
  };
  scripts["P182"] = [] {
    return Script{[](World& world) {
      return result_of(world.strategy().run(
          [](ReplicaContext& replica, const Tensor& x) {
            const Tensor a = merged_sum(replica, x);
            return std::tuple(a, merged_sum(replica, x + a.to(x.device())));
          },
          world.operand_as<P>("x")));
    }};
  };
  scripts["P183"] = [] {
    return Script{[](World& world) -> Json {
      const auto [is_s, cross, sum] = world.strategy().run(
          [&](ReplicaContext& replica, const Tensor& x) {
            return replica.merge_call(
                [&](Strategy& strategy, const P& value) {
                  return std::tuple(&strategy == &world.strategy(), in_cross_replica_context(), value.component(0) + 1);
                },
                x);
          },
          world.operand_as<Tensor>("x"));
      return {result_of(is_s.value()), result_of(cross.value()), result_of(sum.value())};
    }};
  };
  scripts["P184"] = [] {
    return Script{[](World& world) {
                    return result_of(world.strategy().run([&](ReplicaContext& replica) {
                      replica.merge_call([&](Strategy&) { world.variable("v").assign_add(Tensor::scalar(10.0F)); });
                      return world.variable("v").read();
                    }));
                  },
                  [](World& world) { return result_of(world.components("v")); }};
  };
  scripts["P185"] = [] {
    return Script{[](World& world) -> Json {
                    const Variable& v = world.variable("v");
                    world.strategy().run([&](ReplicaContext& replica) {
                      replica.merge_call(
                          [&](Strategy& strategy, const P& g) {
                            strategy.extended().update(
                                v, [&](const Variable&, const Tensor& total) { v.assign_sub(total); },
                                strategy.extended().reduce_to(ReduceOp::sum, g, v));
                          },
                          id_tensor(replica, 1));
                    });
                    return "ok";
                  },
                  [](World& world) { return result_of(world.components("v")); }};
  };
}

// ---- update ----

void add_scripts_of_update(Scripts& scripts) {
  scripts["P64"] = [] {
    return Script{[](World& world) {
      const Scope scope = world.strategy().scope();
      auto& extended = world.strategy().extended();
      int count = 0;
      extended.update_non_slot(extended.non_slot_devices({}), [&] { ++count; });
      return result_of(count);
    }};
  };
  scripts["P213"] = [] {
    return Script{
        [](World& world) {
          const Scope scope = world.strategy().scope();
          const Variable& v = world.variable("v");
          const Mirrored<Tensor> a({Tensor::scalar(3.0F), Tensor::scalar(3.0F)});
          world.strategy().extended().update(
              v,
              [](const Variable& copy, const std::map<std::string, Tensor>& named) { copy.assign_add(named.at("a")); },
              std::map<std::string, Mirrored<Tensor>>{{"a", a}});
          return result_of(world.components("v"));
        },
        [](World& world) -> Json {
          const Scope scope = world.strategy().scope();
          const Variable& v = world.variable("v");
          const Mirrored<Tensor> result =
              world.strategy().extended().update(v, [](const Variable& copy) { return 10 * copy.read(); });
          return {"mirrored", result_of(result)};
        },
        [](World& world) {
          const Scope scope = world.strategy().scope();
          const Variable& v = world.variable("v");
          return result_of(
              world.strategy().extended().update(ungrouped, v, [](const Variable& copy) { return 10 * copy.read(); }));
        }};
  };
  scripts["P214"] = [] {
    return Script{[](World& world) -> Json {
      const Scope scope = world.strategy().scope();
      const Variable& v = world.variable("v");
      Json seen = Json::array();
      int copy = 0;
      world.strategy().extended().update(v, [&](const Variable&) {
        if (copy++ == 1) v.assign(Tensor::scalar(100.0F));
        seen.push_back(result_of(v.read()));
      });
      return {seen, result_of(world.components("v"))};
    }};
  };
  scripts["P215"] = [] {
    return Script{[](World& world) {
      const Variable& v = world.variable("v");
      world.strategy().run([&] {
        world.strategy().extended().update(v, [](const Variable& copy) { copy.assign_add(Tensor::scalar(5.0F)); });
      });
      return result_of(world.components("v"));
    }};
  };
  scripts["P217"] = [] {
    return Script{
        [](World& world) -> Json {
          world.strategy().run([&] {
            auto& extended = world.strategy().extended();
            extended.update_non_slot(extended.non_slot_devices({}), [] {});
          });
          return "ok";
        },
        [](World& world) {
          auto& extended = world.strategy().extended();
          return result_of(extended.update_non_slot(ungrouped, extended.non_slot_devices({}), [] { return 3; }));
        }};
  };
}

}  // namespace

void add_run_scripts(Scripts& scripts) {
  add_scripts_of_run(scripts);
  add_scripts_of_merging(scripts);
  add_scripts_of_update(scripts);
}

}  // namespace lockstep::conformance
