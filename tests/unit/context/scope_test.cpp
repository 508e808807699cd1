// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Scopes that do not end in reverse order of their begin, and the strategy that is current without a scope.

#include <lockstep/lockstep.hpp>

#include "support/expect_error.hpp"
#include "support/function_ref.hpp"
#include "unit/strategy/strategies.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

/// A scope on the heap, which can be closed at any time.
struct Held {
  explicit Held(Strategy& strategy) : scope(strategy.scope()) {}
  Scope scope;
};
using HeldScope = std::unique_ptr<Held>;
HeldScope open(Strategy& strategy) { return std::make_unique<Held>(strategy); }

bool is_outside() { return !has_strategy() && !in_cross_replica_context() && get_replica_context() != nullptr; }
bool is_in_scope_of(const Strategy& strategy) {
  return &get_strategy() == &strategy && in_cross_replica_context() && get_replica_context() == nullptr;
}

std::string log_of(FunctionRef<void()> body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(ScopeOrder, of_nested_scopes_of_one_strategy_is_not_checked) {
  MirroredStrategy strategy = mirrored(2);
  HeldScope outer = open(strategy);
  HeldScope middle = open(strategy);
  HeldScope inner = open(strategy);
  EXPECT_EQ(log_of([&] { middle.reset(); }), "");
  EXPECT_TRUE(is_in_scope_of(strategy));
  inner.reset();  // ended with the middle scope
  EXPECT_TRUE(is_in_scope_of(strategy));
  outer.reset();
  EXPECT_TRUE(is_outside());
}

TEST(ScopeOrder, a_scope_closed_in_a_merge_call_of_an_inner_step_ends_after_that_step) {
  MirroredStrategy strategy = mirrored(2);
  HeldScope scope = open(strategy);
  std::string log;
  strategy.run([&](ReplicaContext& replica) {
    replica.merge_call([&](Strategy&) {
      log = log_of([&] { scope.reset(); });
      EXPECT_TRUE(is_in_scope_of(strategy));
    });
    EXPECT_FALSE(in_cross_replica_context());
  });
  EXPECT_NE(log.find("nesting error"), std::string::npos) << log;
  EXPECT_TRUE(is_outside());
}

TEST(ScopeOrder, a_scope_closed_in_an_inner_update_ends_after_that_update) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  HeldScope outer = open(strategy);
  HeldScope inner = open(strategy);
  strategy.extended().update(variable, [&](const auto&) {
    if (!outer) return;  // only once, not for each copy
    const std::string log = log_of([&] { outer.reset(); });
    EXPECT_NE(log.find("nesting error"), std::string::npos) << log;
    inner.reset();
    EXPECT_TRUE(in_cross_replica_context());
  });
  EXPECT_TRUE(is_outside());
}

TEST(ScopeOrder, an_inner_scope_outlives_an_outer_scope_that_was_closed_first) {
  MirroredStrategy strategy = mirrored(2);
  HeldScope outer = open(strategy);
  HeldScope inner = open(strategy);
  strategy.run([&](ReplicaContext& replica) { replica.merge_call([&](Strategy&) { outer.reset(); }); });
  EXPECT_TRUE(is_in_scope_of(strategy));
  inner.reset();
  EXPECT_TRUE(is_outside());
}

TEST(ScopeOrder, a_scope_left_open_in_a_merge_call_ends_with_it) {
  MirroredStrategy strategy = mirrored(2);
  HeldScope left;
  strategy.run([&](ReplicaContext& replica) {
    replica.merge_call([&](Strategy& current) { left = open(current); });
    EXPECT_FALSE(in_cross_replica_context());
  });
  EXPECT_TRUE(is_outside());
  left.reset();
  EXPECT_TRUE(is_outside());
}

TEST(ScopeOrder, a_scope_closed_on_another_thread_is_an_error_and_stays_open) {
  MirroredStrategy strategy = mirrored(2);
  HeldScope outer = open(strategy);
  HeldScope inner = open(strategy);
  const std::string log = log_of([&] { std::thread([&] { inner.reset(); }).join(); });
  EXPECT_NE(log.find("a thread that did not open it"), std::string::npos) << log;
  EXPECT_TRUE(is_in_scope_of(strategy));
  outer.reset();
  EXPECT_TRUE(is_outside());
}

TEST(SetStrategy, makes_a_strategy_current_until_the_next_call) {
  MirroredStrategy a = mirrored(2);
  MirroredStrategy b = mirrored(2);
  experimental_set_strategy(&a);
  EXPECT_TRUE(is_in_scope_of(a));
  { const Scope scope = a.scope(); }
  EXPECT_TRUE(is_in_scope_of(a));
  a.run([&](ReplicaContext& replica) { EXPECT_EQ(get_replica_context(), &replica); });
  EXPECT_TRUE(is_in_scope_of(a));
  expect_error(Code::failed_precondition, {"scope", "mixed"}, [&] { const Scope scope = b.scope(); });
  expect_error(Code::failed_precondition, {"run", "mixed"}, [&] { b.run([] {}); });
  experimental_set_strategy(&b);
  EXPECT_TRUE(is_in_scope_of(b));
  experimental_set_strategy(nullptr);
  EXPECT_TRUE(is_outside());
  experimental_set_strategy(&a);
  std::thread([] { EXPECT_TRUE(is_outside()); }).join();
  experimental_set_strategy(&get_strategy());
  EXPECT_TRUE(is_in_scope_of(a));
  experimental_set_strategy(nullptr);
  Strategy& fallback = get_strategy();
  experimental_set_strategy(&a);
  experimental_set_strategy(&fallback);
  EXPECT_TRUE(is_outside());
}

TEST(SetStrategy, is_refused_inside_scopes_steps_and_updates) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  const auto refused = [&](const char* place) {
    return [&strategy, place] {
      expect_error(Code::failed_precondition, {"experimental_set_strategy", place, "MirroredStrategy", "outside"},
                   [&] { experimental_set_strategy(&strategy); });
      expect_error(Code::failed_precondition, {"experimental_set_strategy", place},
                   [] { experimental_set_strategy(nullptr); });
    };
  };
  {
    const Scope scope = strategy.scope();
    refused("scope")();
  }
  strategy.run([&](ReplicaContext& replica) {
    refused("step")();
    replica.merge_call([&](Strategy&) { refused("step")(); });
  });
  strategy.extended().update(variable, [&](const auto&) { refused("update")(); });
  EXPECT_TRUE(is_outside());
}

TEST(SetStrategy, forgets_a_strategy_that_is_destroyed) {
  {
    MirroredStrategy strategy = mirrored(2);
    experimental_set_strategy(&strategy);
  }
  EXPECT_TRUE(is_outside());
  EXPECT_EQ(get_strategy().num_replicas_in_sync(), 1);
}

}  // namespace
}  // namespace lockstep::test
