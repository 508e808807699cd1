// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ownership of variables, and attributes of components.

#include "unit/strategy/strategies.hpp"

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

TEST(Variable, made_outside_every_scope_is_plain) {
  const auto plain = get_strategy().variable<float>(4.0F, {.name = "p"});
  EXPECT_EQ(plain.component_count(), 1);
  plain.assign_add(1.0F);
  MirroredStrategy strategy = mirrored(2);
  EXPECT_FALSE(strategy.extended().variable_created_in_scope(plain));
  EXPECT_EQ(components(strategy.run([&] { return plain.value(); })), (Floats{5, 5}));
  expect_error(Code::failed_precondition, {"\"p\"", "create it through that strategy"},
               [&] { strategy.run([&] { plain.assign(1.0F); }); });
  strategy.extended().update(plain, [](const auto& copy) { copy.updatable_component()[0] *= 2; });
  EXPECT_EQ(plain.value(), 10.0F);
}

TEST(Variable, of_one_strategy_is_not_used_in_anothers_scope) {
  MirroredStrategy a = mirrored(2);
  MirroredStrategy b = mirrored(2);
  const auto variable = a.variable<float>(1.0F, {.name = "v"});
  EXPECT_TRUE(a.extended().variable_created_in_scope(variable));
  EXPECT_FALSE(b.extended().variable_created_in_scope(variable));
  expect_error(Code::failed_precondition, {"\"v\"", "mixed"}, [&] { b.run([&] { (void)variable.value(); }); });
}

TEST(Variable, outlives_its_strategy) {
  std::optional<MirroredVariable<float>> variable;
  {
    MirroredStrategy strategy = mirrored(2);
    variable = strategy.variable<float>(1.0F);
  }
  variable->assign_add(1.0F);
  EXPECT_EQ(copies(*variable), (Copies{{2}, {2}}));
}

TEST(Variable, of_one_strategy_is_not_made_in_anothers_scope) {
  MirroredStrategy a = mirrored(2);
  MirroredStrategy b = mirrored(2);
  const Scope scope = b.scope();
  expect_error(Code::failed_precondition, {"\"v\"", "mixed"}, [&] { (void)a.variable<float>(1.0F, {.name = "v"}); });
  const auto mine = make_variable<float>(1.0F);
  EXPECT_TRUE(b.extended().variable_created_in_scope(mine));
}

TEST(Variable, made_outside_every_scope_belongs_to_the_default_strategy) {
  const auto plain = make_variable<float>(1.0F);
  EXPECT_TRUE(get_strategy().extended().variable_created_in_scope(plain));
  MirroredStrategy strategy = mirrored(2);
  EXPECT_FALSE(get_strategy().extended().variable_created_in_scope(strategy.variable<float>(1.0F)));
  const Scope scope = strategy.scope();
  EXPECT_FALSE(strategy.extended().variable_created_in_scope(plain));
  plain.assign(3);
  EXPECT_EQ(plain.value(), 3.0F);
}

TEST(Variable, made_outside_every_scope_has_no_use_for_aggregations) {
  const auto plain = make_sync_on_read_variable<float>(4.0F);
  EXPECT_EQ(plain.value(), 4.0F);
  const auto total = make_sync_on_read_variable<float>(4.0F, {.aggregation = VariableAggregation::sum});
  total.assign_add(1);
  EXPECT_EQ(total.value(), 5.0F);
  EXPECT_EQ(total.elements().front(), 5.0F);
  const auto written = make_variable<float>(4.0F);
  get_strategy().run([&] { written.assign(6); });
  EXPECT_EQ(written.value(), 6.0F);
}

TEST(Variable, is_a_key_by_identity) {
  MirroredStrategy strategy = mirrored(2);
  const auto a = strategy.variable<float>(1.0F, {.name = "v"});
  const auto b = strategy.variable<float>(1.0F, {.name = "v"});
  std::unordered_map<Variable, int> numbers{{a, 1}, {b, 2}};
  EXPECT_EQ(numbers.at(a), 1);
  EXPECT_EQ(numbers.at(MirroredVariable<float>(b)), 2);
  EXPECT_EQ(std::unordered_set<MirroredVariable<float>>({a, b, a}).size(), 2U);
  EXPECT_TRUE(a == Variable(a));
  EXPECT_FALSE(static_cast<const Variable&>(a) == b);
  static_assert(!std::totally_ordered<Variable> && !std::totally_ordered<MirroredVariable<float>>);
}

TEST(VariableComponent, knows_its_container) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(7.0F, {.name = "v"});
  for (const VariableComponent& component : strategy.experimental_local_results(variable)) {
    const Variable container = strategy.extended().value_container(component);
    EXPECT_TRUE(container == variable);
    const auto all = strategy.experimental_local_results(container);
    EXPECT_EQ(std::count(all.begin(), all.end(), component), 1);
    EXPECT_EQ(component, variable.component(component.local_replica()));
  }
  EXPECT_FALSE(variable.component(0) == variable.component(1));
  EXPECT_EQ(std::unordered_set<VariableComponent>({variable.component(0), variable.component(0)}).size(), 1U);
  const Tensor tensor = Tensor::scalar(1);
  EXPECT_EQ(std::as_const(tensor).data(), strategy.extended().value_container(tensor).data());
  EXPECT_TRUE(strategy.extended().value_container(variable) == variable);
}

TEST(VariableComponent, keeps_its_variable_alive) {
  std::optional<VariableComponent> component;
  {
    MirroredStrategy strategy = mirrored(2);
    component = strategy.variable<float>(7.0F, {.name = "v"}).component(1);
  }
  EXPECT_EQ(component->container().component_count(), 2);
  EXPECT_EQ(component->name(), "v/replica_1");
  EXPECT_EQ(elements_of<float>(*component), (Floats{7}));
}

TEST(VariableComponent, is_the_copy_itself) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(0.0F, {.name = "v"});
  variable.component(1).copy_from(Tensor::scalar(5.0F).view());
  EXPECT_EQ(copies(variable), (Copies{{0}, {5}}));
  expect_error(Code::out_of_range, {"\"v\"", "copy 2", "has 2"}, [&] { (void)variable.component(2); });
  expect_error(Code::out_of_range, {"copy -1"}, [&] { (void)variable.component_name(-1); });
}

TEST(Variable, prints_its_components_by_replica) {
  const auto text = [](const Variable& variable) {
    std::ostringstream out;
    out << variable;
    return out.str();
  };
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(text(strategy.variable<float>(1.0F)),
            "MirroredVariable:{0: <Variable 'Variable:0' shape=[] dtype=f32, value=1>, "
            "1: <Variable 'Variable/replica_1:0' shape=[] dtype=f32, value=1>}");
  EXPECT_EQ(text(make_variable<float>(1.0F)), "<Variable 'Variable:0' shape=[] dtype=f32, value=1>");
  on_workers({1, 1}, [&](Strategy& workers) {
    const int rank = workers.communicator().rank();
    EXPECT_EQ(text(workers.sync_on_read_variable<int>(std::vector<int>{1, 2}, {.name = "n"})),
              "SyncOnReadVariable:{" + std::to_string(rank) + ": <Variable 'n:0' shape=[2] dtype=i32, value=[1, 2]>}");
  });
}

TEST(ColocateVarsWith, takes_a_variable_of_this_strategy_in_its_scope) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, {.name = "v"});
  const auto plain = make_variable<float>(1.0F, {.name = "p"});
  expect_error(Code::failed_precondition, {"colocate_vars_with", "strategy.scope()"},
               [&] { (void)strategy.extended().colocate_vars_with(variable); });
  const Scope scope = strategy.scope();
  expect_error(Code::invalid_argument, {"colocate_vars_with", "\"p\"", "the default strategy"},
               [&] { (void)strategy.extended().colocate_vars_with(plain); });
  const ColocateScope colocate = strategy.extended().colocate_vars_with(variable);
  ASSERT_EQ(colocate.devices().size(), 2U);
  EXPECT_EQ(to_string(colocate.devices()[1]), "cpu:1");
  const auto slot = make_variable<float>(0.0F);
  ASSERT_EQ(slot.component_count(), 2);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(slot.component(i).device(), variable.component(i).device());
}

TEST(ColocateVarsWith, takes_devices_of_this_rank_in_its_scope) {
  MirroredStrategy strategy = mirrored(2);
  StrategyExtended& extended = strategy.extended();
  const auto devices = extended.non_slot_devices();
  expect_error(Code::failed_precondition, {"colocate_vars_with", "strategy.scope()"},
               [&] { (void)extended.colocate_vars_with(devices); });
  const Scope scope = strategy.scope();
  const ColocateScope colocate = extended.colocate_vars_with(devices);
  EXPECT_TRUE(std::ranges::equal(colocate.devices(), devices));
  EXPECT_EQ(make_variable<float>(0.0F).component_count(), 2);
  EXPECT_EQ(extended.colocate_vars_with(devices.first(1)).devices().size(), 1U);
  const Device missing[] = {{DeviceKind::cpu, 0}, {DeviceKind::cpu, 7}};
  expect_error(Code::invalid_argument, {"colocate_vars_with", "device cpu:7", "non_slot_devices"},
               [&] { (void)extended.colocate_vars_with(missing); });
  expect_error(Code::invalid_argument, {"colocate_vars_with", "empty"},
               [&] { (void)extended.colocate_vars_with(std::span<const Device>()); });
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

TEST(ColocateVarsWith, still_names_the_variable_that_was_given) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  const Scope scope = strategy.scope();
  EXPECT_TRUE(strategy.extended().colocate_vars_with(variable).variable() == variable);
  expect_error(Code::failed_precondition, {"devices()"}, [&] {
    (void)strategy.extended().colocate_vars_with(strategy.extended().non_slot_devices()).variable();
  });
}

#pragma GCC diagnostic pop

}  // namespace
}  // namespace lockstep::test
