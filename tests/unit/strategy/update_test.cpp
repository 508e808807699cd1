// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// update and update_non_slot.

#include "unit/strategy/strategies.hpp"

#include <map>
#include <memory>
#include <tuple>

namespace lockstep::test {

struct Rates {
  float momentum = 0;
  PerReplica<float> rate{{0.0F}};
};

struct Range {
  float least = 0;
  float most = 0;
};

}  // namespace lockstep::test

template <>
struct lockstep::tree_members<lockstep::test::Rates> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Rates::momentum, &lockstep::test::Rates::rate);
};
template <>
struct lockstep::tree_members<lockstep::test::Range> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Range::least, &lockstep::test::Range::most);
};

namespace lockstep::test {
namespace {

TEST(Update, writes_each_copy_with_its_own_component) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  strategy.extended().update(
      v, [](const auto& copy, int a, float b) { copy.updatable_component()[0] += static_cast<float>(a) * b; }, 2,
      PerReplica<float>({3, 4}));
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{7}, {9}}));
  const auto w = strategy.variable<float>(5.0F);
  strategy.extended().update(
      v, [](const auto& copy, const MirroredVariable<float>& from) { copy.updatable_component()[0] = from.value(); },
      w);
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{5}, {5}}));
}

TEST(Update, gives_its_function_the_variable_which_reads_and_writes_one_copy) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(std::vector<float>{1, 2});
  const auto w = strategy.variable<float>(std::vector<float>{10, 20});
  const PerReplica<std::vector<float>> values({{5, 6}, {7, 8}});
  strategy.extended().update(v, [](auto& v, auto a) { v.assign(a); }, values);
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{5, 6}, {7, 8}}));
  strategy.extended().update(w, [](auto& w, auto& v) { w.assign_sub(v); }, v);
  EXPECT_EQ(copies(w), (std::vector<std::vector<float>>{{5, 14}, {3, 12}}));
  const auto seen = strategy.extended().update(ungrouped, v, [](auto& v) { return v.elements()[1] + v.values()[0]; });
  EXPECT_EQ(seen, (std::vector<float>{11, 15}));
  const Variable untyped = strategy.variable(Tensor::scalar(1.0F));
  strategy.extended().update(untyped, [](const Variable& u, float a) { u.assign_add(a); }, PerReplica<float>({1, 2}));
  EXPECT_EQ(elements_of<float>(untyped.component(0)), std::vector<float>{2});
  EXPECT_EQ(elements_of<float>(untyped.component(1)), std::vector<float>{3});
  strategy.run([&](ReplicaContext& replica) {
    const float id = static_cast<float>(replica.replica_id_in_sync_group());
    const float first = replica.update(
        v,
        [](auto& v, float a) {
          v.assign(std::vector<float>{a, v.values()[1]});
          return v.elements().front();
        },
        id);
    EXPECT_EQ(first, id);
  });
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{0, 6}, {1, 8}}));
}

TEST(Update, keeps_the_names_of_the_members_of_its_results) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  const auto range = [](auto& v) { return Range{v.value(), v.value() + 1}; };
  const Mirrored<Range> grouped = strategy.extended().update(v, range);
  EXPECT_EQ(grouped.component(1).most, 2);
  const std::vector<Range> listed = strategy.extended().update(ungrouped, v, range);
  EXPECT_EQ(listed[1].least, 1);
}

TEST(Update, prefers_the_form_with_the_variable) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  struct Both {
    std::string operator()(const MirroredVariable<float>& /*variable*/) const { return "variable"; }
    std::string operator()(std::span<float> /*elements*/) const { return "elements"; }
  };
  EXPECT_EQ(strategy.extended().update(ungrouped, v, Both{}), (std::vector<std::string>{"variable", "variable"}));
  strategy.run([&](ReplicaContext& replica) { EXPECT_EQ(replica.update(v, Both{}), "variable"); });
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

TEST(Update, still_takes_a_function_of_the_elements_of_the_copy) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  const auto fn = [](std::span<float> copy, float a) { return copy[0] += a; };
  EXPECT_EQ(strategy.extended().update(v, fn, PerReplica<float>({1, 2})).component(1), 3.0F);
  EXPECT_EQ(strategy.extended().update(ungrouped, v, fn, 1.0F), (std::vector<float>{3, 4}));
  const Variable untyped = strategy.variable(Tensor::from(std::vector<int>{1, 2}));
  strategy.extended().update(untyped, [](TensorView copy) { static_cast<int*>(copy.data)[1] = 7; });
  EXPECT_EQ(elements_of<int>(untyped.component(1)), (std::vector<int>{1, 7}));
  strategy.run([&](ReplicaContext& replica) {
    const float updated = replica.update(v, fn, 1.0F);
    EXPECT_EQ(updated, v.value());
  });
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{4}, {5}}));
}

#pragma GCC diagnostic pop

TEST(Update, takes_arguments_by_name_as_one_aggregate) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  strategy.extended().update(
      v,
      [](const auto& copy, const std::tuple<float, float>& rates) {
        copy.updatable_component()[0] = std::get<0>(rates) * copy.updatable_component()[0] + std::get<1>(rates);
      },
      Rates{.momentum = 10, .rate = PerReplica<float>({1, 2})});
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{11}, {12}}));
}

TEST(Update, returns_its_results_as_mirrored_or_as_a_list) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(4.0F);
  const auto fn = [](const auto& copy, int c) {
    return std::tuple(10 * copy.updatable_component()[0], std::map<std::string, int>{{"k", c}});
  };
  const auto [grouped, map] = strategy.extended().update(v, fn, PerReplica<int>({1, 2}));
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(grouped)>, Mirrored<float>>);
  EXPECT_EQ(grouped.value(), 40.0F);
  EXPECT_EQ(map.at("k").component(1), 2);
  const auto [listed, lists] = strategy.extended().update(ungrouped, v, fn, PerReplica<int>({1, 2}));
  EXPECT_EQ(listed, (std::vector<float>{40, 40}));
  EXPECT_EQ(lists.at("k"), (std::vector<int>{1, 2}));
  OneDeviceStrategy one;
  const auto w = one.variable<float>(1.0F);
  EXPECT_EQ(one.extended().update(ungrouped, w, [](const auto& copy) { return copy.updatable_component()[0] + 1; }),
            (std::vector<float>{2}));
}

TEST(Update, returns_a_variable_as_that_variable) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(4.0F);
  const MirroredVariable<float> same = strategy.extended().update(v, [&](const auto&) { return v; });
  EXPECT_TRUE(same == v);
}

TEST(Update, reads_the_variable_as_the_copy_that_is_updated) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  int copy_number = 0;
  const auto seen = strategy.extended().update(ungrouped, v, [&](const auto& copy) {
    if (copy_number++ == 1) copy.updatable_component()[0] = 100;
    return v.value();
  });
  EXPECT_EQ(seen, (std::vector<float>{1, 100}));
}

TEST(Update, passes_arguments_that_cannot_be_copied_by_reference) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  const auto number = std::make_unique<float>(3.0F);
  strategy.extended().update(
      v, [](const auto& copy, const std::unique_ptr<float>& n) { copy.updatable_component()[0] += *n; }, number);
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{4}, {4}}));
}

TEST(Update, in_a_step_goes_through_merge_call_with_the_arguments_of_each_replica) {
  for (const int count : {1, 2, 4}) {
    MirroredStrategy strategy = mirrored(count);
    const auto v = strategy.variable<float>(1.0F);
    const auto results = strategy.run([&](ReplicaContext& replica) {
      EXPECT_EQ(get_replica_context(), &replica);
      const auto result = strategy.extended().update(
          v,
          [](const auto& copy, float own, const float& part) {
            EXPECT_TRUE(in_cross_replica_context());
            copy.updatable_component()[0] += 10 * own + part;
            return copy.updatable_component()[0];
          },
          static_cast<float>(replica.replica_id_in_sync_group()),
          PerReplica<float>(std::vector<float>(static_cast<std::size_t>(count), 5.0F)));
      EXPECT_EQ(get_replica_context(), &replica);
      return result.component(replica.local_replica());
    });
    for (int i = 0; i < count; ++i) EXPECT_EQ(results.component(i), 6.0F + 10 * static_cast<float>(i));
    strategy.run([&] { strategy.extended().update(v, [](const auto& copy) { copy.updatable_component()[0] = -1; }); });
    EXPECT_EQ(copies(v), (std::vector<std::vector<float>>(static_cast<std::size_t>(count), {-1})));
  }
}

TEST(Update, in_a_step_is_an_error_if_only_some_replicas_call_it) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  expect_error(Code::failed_precondition, {"different number", "merge_call"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      if (replica.local_replica() == 0) strategy.extended().update(v, [](const auto&) {});
    });
  });
}

TEST(Update, of_a_variable_made_outside_of_any_scope_has_one_call) {
  const auto plain = get_strategy().variable<float>(1.0F);
  MirroredStrategy strategy = mirrored(2);
  int calls = 0;
  strategy.extended().update(plain, [&](const auto& copy) {
    ++calls;
    copy.updatable_component()[0] = 3;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(plain.value(), 3.0F);
}

TEST(Update, refuses_a_variable_of_another_strategy_in_every_context) {
  MirroredStrategy strategy = mirrored(2);
  MirroredStrategy other = mirrored(2);
  const auto v = other.variable<float>(1.0F, {.name = "theirs"});
  const auto update = [&] { strategy.extended().update(v, [](const auto&) {}); };
  expect_error(Code::invalid_argument, {"update", "theirs", "its own strategy"}, update);
  expect_error(Code::invalid_argument, {"update", "theirs", "its own strategy"}, [&] { strategy.run(update); });
  const Scope scope = other.scope();
  expect_error(Code::failed_precondition, {"update", "mixed"}, update);
}

TEST(Update, restores_the_context_after_an_exception_and_keeps_earlier_copies_written) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(1.0F);
  int calls = 0;
  EXPECT_THROW(strategy.extended().update(v,
                                          [&](const auto& copy) {
                                            if (calls++ == 1) throw std::out_of_range("boom");
                                            copy.updatable_component()[0] = 2;
                                          }),
               std::out_of_range);
  EXPECT_FALSE(in_cross_replica_context());
  EXPECT_EQ(copies(v), (std::vector<std::vector<float>>{{2}, {1}}));
}

TEST(UpdateNonSlot, runs_once_per_device_in_update_context) {
  MirroredStrategy strategy = mirrored(3);
  StrategyExtended& extended = strategy.extended();
  int calls = 0;
  extended.update_non_slot(extended.non_slot_devices(), [&] {
    ++calls;
    EXPECT_TRUE(in_cross_replica_context());
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(extended.update_non_slot(ungrouped, extended.non_slot_devices(), [] { return 3; }),
            (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(extended.update_non_slot(extended.non_slot_devices(), [] { return 3; }).value(), 3);
  const Device last[] = {{DeviceKind::cpu, 2}};
  EXPECT_EQ(extended.update_non_slot(
                ungrouped, last, [](int x) { return x; }, PerReplica<int>({1, 2, 3})),
            (std::vector<int>{3}));
}

TEST(UpdateNonSlot, increments_a_counter_on_every_device) {
  MirroredStrategy strategy = mirrored(2);
  const auto steps = strategy.variable<int>(0);
  for (int i = 0; i < 3; ++i) {
    strategy.extended().update_non_slot(strategy.extended().non_slot_devices(),
                                        [&] { steps.updatable_component()[0]++; });
  }
  EXPECT_EQ(copies(steps), (std::vector<std::vector<int>>{{3}, {3}}));
}

TEST(UpdateNonSlot, refuses_steps_and_missing_devices) {
  MirroredStrategy strategy = mirrored(2);
  StrategyExtended& extended = strategy.extended();
  expect_error(Code::failed_precondition, {"update_non_slot", "merge_call"},
               [&] { strategy.run([&] { extended.update_non_slot(extended.non_slot_devices(), [] {}); }); });
  expect_error(Code::invalid_argument, {"update_non_slot", "empty", "non_slot_devices"},
               [&] { extended.update_non_slot(std::span<const Device>(), [] {}); });
  const Device other[] = {{DeviceKind::cpu, 7}};
  expect_error(Code::invalid_argument, {"update_non_slot", "cpu:7", "non_slot_devices"},
               [&] { extended.update_non_slot(other, [] {}); });
}

TEST(NonSlotDevices, of_the_default_strategy_are_where_the_variables_are) {
  Strategy& fallback = get_strategy();
  expect_error(Code::invalid_argument, {"non_slot_devices", "var_list is empty"},
               [&] { (void)fallback.extended().non_slot_devices(); });
  const std::vector<Variable> variables{fallback.variable<float>(1.0F)};
  EXPECT_EQ(fallback.extended().non_slot_devices(variables).size(), 1U);
  OneDeviceStrategy one("cpu:3");
  EXPECT_EQ(to_string(one.extended().non_slot_devices().front()), "cpu:3");
}

TEST(Update, updates_the_copies_of_every_rank) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto v = strategy.variable<float>(1.0F);
    strategy.extended().update(
        v, [](const auto& copy, int a) { copy.updatable_component()[0] += static_cast<float>(a); }, 3);
    EXPECT_EQ(v.value(), 4.0F);
    strategy.run([&] { strategy.extended().update(v, [](const auto& copy) { copy.updatable_component()[0] *= 2; }); });
    for (const auto& copy : copies(v)) EXPECT_EQ(copy, (std::vector<float>{8}));
  });
}

}  // namespace
}  // namespace lockstep::test
