// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The context of a thread: which contexts calls enter, and which calls a context permits.

#include <lockstep/lockstep.hpp>

#include "support/expect_error.hpp"
#include "unit/strategy/strategies.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

/// Name of the calling thread's context.
std::string context() {
  const ReplicaContext* replica = get_replica_context();
  std::string text = has_strategy() ? "strategy" : "default";
  text += in_cross_replica_context() ? " cross" : " replica";
  return text + (replica == nullptr ? " -" : " " + std::to_string(replica->replica_id_in_sync_group()));
}

TEST(Context, outside_of_any_scope_is_the_replica_of_the_default_strategy) {
  EXPECT_EQ(context(), "default replica 0");
  EXPECT_EQ(get_strategy().num_replicas_in_sync(), 1);
  EXPECT_EQ(get_replica_context()->num_replicas_in_sync(), 1);
  EXPECT_EQ(&get_replica_context()->strategy(), &get_strategy());
}

TEST(Context, inside_a_scope_is_cross_replica) {
  MirroredStrategy strategy = mirrored(2);
  {
    const Scope scope = strategy.scope();
    EXPECT_EQ(context(), "strategy cross -");
    EXPECT_EQ(&get_strategy(), &strategy);
  }
  EXPECT_EQ(context(), "default replica 0");
}

TEST(Context, inside_run_is_the_context_of_that_replica) {
  MirroredStrategy strategy = mirrored(2);
  const auto texts = strategy.run([&] {
    EXPECT_EQ(&get_strategy(), &strategy);
    return context();
  });
  EXPECT_EQ(texts.component(0), "strategy replica 0");
  EXPECT_EQ(texts.component(1), "strategy replica 1");
  EXPECT_EQ(context(), "default replica 0");
}

TEST(Context, inside_merge_call_is_cross_replica_and_inside_update_too) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(0.0F);
  std::string in_merge;
  std::vector<std::string> in_update;
  strategy.run([&](ReplicaContext& replica) {
    replica.merge_call([&](Strategy& current) {
      in_merge = context();
      current.extended().update(variable, [&](const auto&) { in_update.push_back(context()); });
    });
    EXPECT_EQ(context(), "strategy replica " + std::to_string(replica.replica_id_in_sync_group()));
    replica.update(variable, [](const auto&) { EXPECT_EQ(context(), "strategy cross -"); });
  });
  EXPECT_EQ(in_merge, "strategy cross -");
  EXPECT_EQ(in_update, (std::vector<std::string>{"strategy cross -", "strategy cross -"}));
}

TEST(Context, is_restored_after_an_exception) {
  MirroredStrategy strategy = mirrored(2);
  const auto boom = [&] { strategy.run([] { throw std::runtime_error("boom"); }); };
  EXPECT_THROW(boom(), std::runtime_error);
  EXPECT_EQ(context(), "default replica 0");
  const Scope scope = strategy.scope();
  EXPECT_THROW(boom(), std::runtime_error);
  EXPECT_EQ(context(), "strategy cross -");
}

TEST(Context, of_a_new_thread_is_outside_of_any_scope) {
  MirroredStrategy strategy = mirrored(2);
  const Scope scope = strategy.scope();
  std::string text;
  std::thread([&] { text = context(); }).join();
  EXPECT_EQ(text, "default replica 0");
}

TEST(Context, of_the_default_replica_merges_and_reduces_alone) {
  ReplicaContext& replica = *get_replica_context();
  bool is_default = false;
  const int result = replica.merge_call(
      [&](Strategy& strategy, const PerReplica<int>& x) {
        is_default = &strategy == &get_strategy() && !has_strategy() && in_cross_replica_context();
        return x.value() + 1;
      },
      4);
  EXPECT_EQ(result, 5);
  EXPECT_TRUE(is_default);
  EXPECT_EQ(replica.all_reduce(ReduceOp::sum, std::vector<float>{1, 2}), (std::vector<float>{1, 2}));
}

TEST(Scope, nests_in_a_scope_of_the_same_strategy) {
  MirroredStrategy strategy = mirrored(2);
  const Scope outer = strategy.scope();
  {
    const Scope inner = strategy.scope();
    EXPECT_EQ(&get_strategy(), &strategy);
  }
  EXPECT_EQ(&get_strategy(), &strategy);
}

TEST(Scope, closed_before_an_inner_scope_ends_both) {
  MirroredStrategy strategy = mirrored(2);
  std::optional<Scope> outer;
  std::optional<Scope> inner;
  struct Open {
    Strategy& strategy;
    operator Scope() const { return strategy.scope(); }  // NOLINT: elides the move
  };
  outer.emplace(Open{strategy});
  inner.emplace(Open{strategy});
  outer.reset();
  EXPECT_EQ(context(), "default replica 0");
  inner.reset();
  EXPECT_EQ(context(), "default replica 0");
}

TEST(Scope, inside_a_scope_of_another_strategy_is_refused) {
  MirroredStrategy a = mirrored(2);
  MirroredStrategy b = mirrored(2);
  const Scope scope = a.scope();
  expect_error(Code::failed_precondition, {"scope", "strategies cannot be mixed"},
               [&] { const Scope other = b.scope(); });
  const auto title_of = [](Strategy& strategy) { return strategy.describe().substr(0, strategy.describe().find(':')); };
  EXPECT_NE(title_of(a), title_of(b));
  expect_error(Code::failed_precondition,
               {"run: the call is for " + title_of(b) + " on cpu:0, cpu:1, but this thread is inside a scope of " +
                title_of(a) + " on cpu:0, cpu:1; strategies cannot be mixed"},
               [&] { b.run([] {}); });
  expect_error(Code::failed_precondition, {"reduce", "mixed"},
               [&] { (void)b.reduce(ReduceOp::sum, PerReplica<float>({1, 2})); });
  expect_error(Code::failed_precondition, {"variable", "mixed"}, [&] { (void)b.variable<float>(1.0F); });
  EXPECT_EQ(&get_strategy(), &a);
}

TEST(Scope, of_the_default_strategy_must_not_nest) {
  Strategy& fallback = get_strategy();
  MirroredStrategy strategy = mirrored(2);
  const Scope scope = strategy.scope();
  expect_error(Code::failed_precondition, {"nest"}, [&] { const Scope inner = fallback.scope(); });
}

TEST(Scope, inside_a_step_function_is_refused) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::failed_precondition, {"scope", "merge_call"},
               [&] { strategy.run([&] { const Scope scope = strategy.scope(); }); });
}

TEST(Misuse, of_cross_replica_calls_in_a_step_is_an_error_that_names_merge_call) {
  MirroredStrategy strategy = mirrored(2);
  const auto in_step = [&](auto body) { return [&, body] { strategy.run([&] { body(); }); }; };
  expect_error(Code::failed_precondition, {"run", "merge_call"}, in_step([&] { strategy.run([] {}); }));
  expect_error(Code::failed_precondition, {"reduce", "merge_call"},
               in_step([&] { (void)strategy.reduce(ReduceOp::sum, PerReplica<float>({1, 2})); }));
  expect_error(Code::failed_precondition, {"reduce_to", "merge_call"}, in_step([&] {
                 (void)strategy.extended().reduce_to(ReduceOp::sum, PerReplica<float>({1, 2}), Device{});
               }));
}

TEST(Misuse, of_a_replica_context_has_three_distinct_errors) {
  MirroredStrategy strategy = mirrored(2);
  MirroredStrategy other = mirrored(2);
  std::vector<ReplicaContext*> kept(2);
  strategy.run([&](ReplicaContext& replica) { kept[static_cast<std::size_t>(replica.local_replica())] = &replica; });
  const auto use = [&](ReplicaContext& replica) { (void)replica.all_reduce(ReduceOp::sum, 1.0F); };
  expect_error(Code::failed_precondition, {"valid only inside the step function"}, [&] { use(*kept[0]); });
  expect_error(Code::failed_precondition, {"all_reduce: called inside merge_call", "Strategy&"}, [&] {
    strategy.run([&](ReplicaContext& replica) { replica.merge_call([&](Strategy&) { use(replica); }); });
  });
  expect_error(Code::failed_precondition, {"mismatching ReplicaContext", "replica 0", "replica 1"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      if (replica.local_replica() == 1) use(*kept[0]);
    });
  });
  expect_error(Code::failed_precondition, {"mismatching Strategy"}, [&] { other.run([&] { use(*kept[0]); }); });
}

TEST(Misuse, of_collectives_inside_update_is_refused) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(0.0F);
  expect_error(Code::failed_precondition, {"inside update"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      replica.update(variable, [&](const auto&) { (void)replica.all_reduce(ReduceOp::sum, 1.0F); });
    });
  });
}

}  // namespace
}  // namespace lockstep::test
