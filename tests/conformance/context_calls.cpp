// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The strategy, replica and context of a thread.

#include "conformance/devices.hpp"
#include "conformance/steps.hpp"
#include "conformance/user_error.hpp"

#include <lockstep/lockstep.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

namespace lockstep::conformance {
namespace {

/// "S" is the case's strategy.
std::string current_strategy(const World& world) {
  if (!has_strategy()) return "default";
  return &get_strategy() == &world.strategy() ? "S" : "another";
}

/// The context in cross-replica code, and outside of any scope, where the replica context is the default one.
Json seen_from_outside_of_run(const World& world) {
  const ReplicaContext* const replica = get_replica_context();
  Json context;
  if (replica != nullptr) {
    context = {{"replica_id", replica->replica_id_in_sync_group()}, {"num_replicas", replica->num_replicas_in_sync()}};
  }
  return {{"strategy", current_strategy(world)},
          {"has_strategy", has_strategy()},
          {"cross_replica", in_cross_replica_context()},
          {"replica_context", context}};
}

Json seen_in_run(World& world) {
  const auto seen = world.strategy().run([&](ReplicaContext& replica) {
    return std::tuple(current_strategy(world), has_strategy(), in_cross_replica_context(),
                      replica.replica_id_in_sync_group(), get_replica_context()->num_replicas_in_sync());
  });
  const auto& [strategy, has, cross, id, count] = seen;
  // flags are plain values, equal on all replicas
  const auto mirrored = [](const PerReplica<bool>& flags) {
    std::vector<bool> copies;
    for (int i = 0; i < flags.size(); ++i) copies.push_back(flags.component(i));
    return result_of(Mirrored<bool>(std::move(copies)));
  };
  for (int i = 1; i < strategy.size(); ++i) {
    if (strategy.component(i) != strategy.component(0)) return "strategies differ";
  }
  return {{"strategy", strategy.component(0)},
          {"has_strategy", mirrored(has)},
          {"cross_replica", mirrored(cross)},
          {"replica_id", result_of(id)},
          {"num_replicas", result_of(count)}};
}

Json context_call(World& world, const Json& step) {
  const std::string where = step.value("in", "cross_replica");
  if (where == "replica") return seen_in_run(world);
  if (where == "update") {
    const Scope scope = world.strategy().scope();
    std::vector<Json> seen;
    world.strategy().extended().update(world.variable(step["variable"].get<std::string>()),
                                       [&](const Variable&) { seen.push_back(seen_from_outside_of_run(world)); });
    return result_of(PerReplica<Json>(std::move(seen), world.first_replica()));
  }
  return world.in_context(step, [&] { return seen_from_outside_of_run(world); });
}

/// A second strategy of the same size.
std::unique_ptr<MirroredStrategy> another(int replicas) {
  return std::make_unique<MirroredStrategy>(devices_of_process(replicas));
}

void add_scope_scripts(Scripts& scripts) {
  scripts["P37"] = [] {
    return Script{[](World& world) -> Json {
      const Scope outer = world.strategy().scope();
      const auto second = another(2);
      const Scope inner = second->scope();
      return "open";
    }};
  };
  scripts["P38"] = [] {
    return Script{[](World& world) -> Json {
      Strategy& fallback = get_strategy();
      const Scope outer = world.strategy().scope();
      const Scope inner = fallback.scope();
      return "open";
    }};
  };
  scripts["P39"] = [] {
    struct Scopes {
      std::unique_ptr<Scope> outer;
      std::unique_ptr<Scope> inner;
    };
    const auto scopes = std::make_shared<Scopes>();
    return Script{[scopes](World& world) -> Json {
                    scopes->outer.reset(new Scope(world.strategy().scope()));
                    scopes->inner.reset(new Scope(world.strategy().scope()));
                    scopes->inner.reset();
                    return current_strategy(world);
                  },
                  [scopes](World& world) -> Json {
                    scopes->outer.reset();
                    return current_strategy(world);
                  }};
  };
  scripts["P40"] = [] {
    return Script{[](World& world) -> Json {
      const Scope scope = world.strategy().scope();
      Json seen;
      std::jthread([&] { seen = current_strategy(world); }).join();
      return seen;
    }};
  };
  scripts["P41"] = [] {
    return Script{[](World& world) -> Json {
                    experimental_set_strategy(&world.strategy());
                    return current_strategy(world);
                  },
                  [](World& world) -> Json {
                    const Scope scope = world.strategy().scope();
                    experimental_set_strategy(&world.strategy());
                    return "set";
                  },
                  [](World& world) -> Json {
                    experimental_set_strategy(nullptr);
                    return current_strategy(world);
                  }};
  };
  scripts["P174"] = [] {
    return Script{[](World& world) -> Json {
                    const Scope scope = world.strategy().scope();
                    throw UserError("boom");
                  },
                  [](World& world) -> Json { return current_strategy(world); },
                  // a Scope can be entered only once, so another one is made
                  [](World& world) -> Json {
                    const Scope scope = world.strategy().scope();
                    return current_strategy(world);
                  }};
  };
  scripts["P175"] = [] {
    const std::shared_ptr<Strategy> second = another(2);
    return Script{[second](World& world) {
                    const Scope scope = world.strategy().scope();
                    return replica_ids(*second);
                  },
                  [second](World& world) {
                    const Scope scope = world.strategy().scope();
                    return result_of(second->reduce(ReduceOp::sum, PerReplica<float>({1, 2})));
                  }};
  };
  scripts["P176"] = [] {
    return Script{[](World& world) -> Json {
      world.strategy().run([&] { const Scope scope = world.strategy().scope(); });
      return "open";
    }};
  };
}

Json after_a_throwing_run(World& world) {
  try {
    world.strategy().run([] { throw UserError("boom"); });
  } catch (const UserError&) {
    return {current_strategy(world), in_cross_replica_context()};
  }
  return "nothing was thrown";
}

}  // namespace

void add_context_calls(Calls& calls) { calls["context"] = context_call; }

void add_context_scripts(Scripts& scripts) {
  add_scope_scripts(scripts);
  scripts["P171"] = [] {
    return Script{after_a_throwing_run, [](World& world) {
                    const Scope scope = world.strategy().scope();
                    return after_a_throwing_run(world);
                  }};
  };
  scripts["P173"] = [] {
    return Script{[](World& world) -> Json {
                    ReplicaContext* kept = nullptr;
                    world.strategy().run([&](ReplicaContext& replica) {
                      if (replica.local_replica() == 0) kept = &replica;
                    });
                    kept->merge_call([](Strategy&) {});
                    return "met";
                  },
                  [](World& world) -> Json {
                    std::atomic<ReplicaContext*> handed = nullptr;
                    world.strategy().run([&](ReplicaContext& replica) {
                      if (replica.local_replica() == 0) {
                        handed = &replica;
                        // waits until the other replica has used this context, which throws and ends this rendezvous
                        replica.merge_call([](Strategy&) {});
                      } else {
                        while (handed == nullptr) std::this_thread::yield();
                        handed.load()->merge_call([](Strategy&) {});
                      }
                    });
                    return "met";
                  }};
  };
}

}  // namespace lockstep::conformance
