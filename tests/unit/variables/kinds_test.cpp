// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which rules a variable has depends on the kind of its strategy, not on the number of replicas: each rule of class
// Variable, for four strategies with one replica.

#include "support/function_ref.hpp"
#include "support/temporary_directory.hpp"
#include "unit/strategy/strategies.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

enum class Rules : std::uint8_t { plain, mirrored };

/// A strategy with one replica, and its rules.
struct Kind {
  const char* name;
  Rules rules;
  std::function<void(const std::function<void(Strategy&)>&)> with_strategy;
};

std::vector<Kind> kinds() {
  return {
      {"default", Rules::plain, [](const auto& body) { body(get_strategy()); }},
      {"OneDeviceStrategy", Rules::plain,
       [](const auto& body) {
         OneDeviceStrategy strategy("cpu:0");
         body(strategy);
       }},
      {"MirroredStrategy over one device", Rules::mirrored,
       [](const auto& body) {
         MirroredStrategy strategy = mirrored(1);
         body(strategy);
       }},
      {"MultiWorkerMirroredStrategy with one replica", Rules::mirrored,
       [](const auto& body) { on_workers({1}, [&](Strategy& strategy) { body(strategy); }); }},
  };
}

/// How a use of a variable ends: without an error, or with this one.
using End = std::optional<Code>;

End end_of(FunctionRef<void()> use) {
  try {
    use();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

enum class In : std::uint8_t { replica, merge, scope, outside, update };

/// Calls `use` in a context of `strategy`.
void in_context(In where, Strategy& strategy, const Variable& variable, FunctionRef<void()> use) {
  switch (where) {
    case In::replica: strategy.run([&] { use(); }); break;
    case In::merge:
      strategy.run([&](ReplicaContext& replica) { replica.merge_call([&](Strategy&) { use(); }); });
      break;
    case In::scope: {
      const Scope scope = strategy.scope();
      use();
      break;
    }
    case In::outside: use(); break;
    case In::update: strategy.extended().update(variable, [&](const auto&) { use(); }); break;
  }
}

constexpr auto on_write = VariableSynchronization::on_write;
constexpr auto on_read = VariableSynchronization::on_read;
constexpr auto none = VariableAggregation::none;
constexpr auto sum = VariableAggregation::sum;
constexpr auto mean = VariableAggregation::mean;
constexpr auto first = VariableAggregation::only_first_replica;

Variable make(Strategy& strategy, VariableSynchronization synchronization, VariableAggregation aggregation) {
  return strategy.variable(Tensor::from(Floats{4, 8}).reshaped(Shape{2, 1}),
                           {.name = "v", .synchronization = synchronization, .aggregation = aggregation});
}

Tensor two() { return tensor({2, 2}, Shape{2, 1}); }
IndexedSlices second_row() { return slices({1}, {2}, 2); }

/// A use of a variable, and the elements afterwards.
struct Use {
  void (*of)(const Variable& variable);
  Floats result;
};

/// One rule: how these uses of such a variable end under a mirrored strategy. Under the others none of them throws.
struct Rule {
  VariableSynchronization synchronization;
  std::vector<VariableAggregation> aggregations;
  std::vector<In> contexts;
  std::vector<Use> uses;
  End mirrored;
};

std::vector<Rule> all_rules() {
  const std::vector<In> cross{In::merge, In::scope, In::outside};
  const std::vector<In> not_replica{In::merge, In::scope, In::outside, In::update};
  const std::vector<In> own_copy{In::replica, In::update};
  const std::vector<In> everywhere{In::replica, In::merge, In::scope, In::outside, In::update};
  const std::vector<VariableAggregation> all{none, sum, mean, first};
  const std::vector<Use> read{{[](const Variable& v) { (void)v.read(); }, {4, 8}}};
  const std::vector<Use> view{{[](const Variable& v) { (void)v.view(); }, {4, 8}}};
  const std::vector<Use> assign{{[](const Variable& v) { v.assign(two()); }, {2, 2}}};
  const std::vector<Use> add{{[](const Variable& v) { v.assign_add(two()); }, {6, 10}},
                             {[](const Variable& v) { v.assign_sub(two()); }, {2, 6}}};
  const std::vector<Use> row_sums{{[](const Variable& v) { v.scatter_add(second_row()); }, {4, 10}},
                                  {[](const Variable& v) { v.scatter_sub(second_row()); }, {4, 6}},
                                  {[](const Variable& v) { v.scatter_mul(second_row()); }, {4, 16}},
                                  {[](const Variable& v) { v.scatter_div(second_row()); }, {4, 4}}};
  const std::vector<Use> row_choices{{[](const Variable& v) { v.scatter_min(second_row()); }, {4, 2}},
                                     {[](const Variable& v) { v.scatter_max(second_row()); }, {4, 8}},
                                     {[](const Variable& v) { v.scatter_update(second_row()); }, {4, 2}}};
  return {
      {on_write, all, everywhere, read, {}},
      {on_write, all, everywhere, view, {}},
      {on_write, {none}, {In::replica}, assign, Code::invalid_argument},
      {on_write, {none}, {In::replica}, add, Code::invalid_argument},
      {on_write, {none}, {In::replica}, row_sums, Code::invalid_argument},
      {on_write, {none}, {In::replica}, row_choices, Code::invalid_argument},
      {on_write, {sum, mean, first}, {In::replica}, assign, {}},
      {on_write, {sum, mean, first}, {In::replica}, add, {}},
      {on_write, {sum, mean, first}, {In::replica}, row_sums, {}},
      {on_write, {sum, mean}, {In::replica}, row_choices, Code::unimplemented},
      {on_write, {first}, {In::replica}, row_choices, {}},
      {on_write, all, not_replica, assign, {}},
      {on_write, all, not_replica, add, {}},
      {on_write, all, not_replica, row_sums, {}},
      {on_write, all, not_replica, row_choices, {}},
      {on_read, all, own_copy, read, {}},
      {on_read, all, own_copy, view, {}},
      {on_read, all, own_copy, assign, {}},
      {on_read, all, own_copy, add, {}},
      {on_read, {none}, cross, read, Code::invalid_argument},
      {on_read, {sum, mean, first}, cross, read, {}},
      {on_read, all, cross, view, Code::failed_precondition},
      {on_read, all, cross, assign, {}},
      {on_read, {sum}, cross, add, Code::invalid_argument},
      {on_read, {none, mean, first}, cross, add, {}},
      {on_read, all, everywhere, row_sums, Code::unimplemented},
      {on_read, all, everywhere, row_choices, Code::unimplemented},
  };
}

void check_rule(Strategy& strategy, const Rule& rule, Rules kind) {
  const End expected = kind == Rules::mirrored ? rule.mirrored : std::nullopt;
  for (const VariableAggregation aggregation : rule.aggregations) {
    for (const In where : rule.contexts) {
      for (std::size_t k = 0; k < rule.uses.size(); ++k) {
        SCOPED_TRACE(std::string(to_string(rule.synchronization)) + " " + std::string(to_string(aggregation)) +
                     ", context " + std::to_string(static_cast<int>(where)) + ", use " + std::to_string(k));
        const Variable variable = make(strategy, rule.synchronization, aggregation);
        const End end = end_of([&] { in_context(where, strategy, variable, [&] { rule.uses[k].of(variable); }); });
        EXPECT_EQ(end, expected);
        EXPECT_EQ(elements_of<float>(variable.component(0)), expected ? (Floats{4, 8}) : rule.uses[k].result);
      }
    }
  }
}

TEST(KindsOfStrategies, decide_which_reads_and_writes_a_variable_has) {
  const std::vector<Rule> rules = all_rules();
  for (const Kind& kind : kinds()) {
    kind.with_strategy([&](Strategy& strategy) {
      for (std::size_t k = 0; k < rules.size(); ++k) {
        SCOPED_TRACE(std::string(kind.name) + ", rule " + std::to_string(k));
        check_rule(strategy, rules[k], kind.rules);
      }
    });
  }
}

TEST(KindsOfStrategies, decide_whether_a_variable_without_aggregation_is_saved) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    kind.with_strategy([&](Strategy& strategy) {
      for (const VariableAggregation aggregation : {none, sum, mean, first}) {
        const TemporaryDirectory folder;
        const Variable variable = make(strategy, on_read, aggregation);
        Checkpoint checkpoint(strategy);
        checkpoint.track("v", variable);
        const End end = end_of([&] { (void)checkpoint.save(folder.path(), 1); });
        const bool refused = kind.rules == Rules::mirrored && aggregation == none;
        EXPECT_EQ(end, refused ? End(Code::invalid_argument) : std::nullopt);
        if (refused) continue;
        variable.assign(two());
        (void)checkpoint.restore_latest(folder.path());
        EXPECT_EQ(elements_of<float>(variable.component(0)), (Floats{4, 8}));
      }
    });
  }
}

TEST(KindsOfStrategies, decide_how_a_variable_is_printed) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    kind.with_strategy([&](Strategy& strategy) {
      std::ostringstream out;
      out << strategy.variable<float>(1.0F, {.name = "v"});
      const std::string copy = "<Variable 'v:0' shape=[] dtype=f32, value=1>";
      EXPECT_EQ(out.str(), kind.rules == Rules::plain ? copy : "MirroredVariable:{0: " + copy + "}");
    });
  }
}

TEST(KindsOfStrategies, share_the_options_that_no_variable_has) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    kind.with_strategy([&](Strategy& strategy) {
      const auto made = [&](const VariableOptions& options, const Tensor& initial) {
        return end_of([&] { (void)strategy.variable(initial, options); });
      };
      EXPECT_EQ(made({.synchronization = VariableSynchronization::none}, two()), Code::invalid_argument);
      EXPECT_EQ(made({.aggregation = mean}, Tensor::scalar(1)), Code::invalid_argument);
      EXPECT_EQ(made({.aggregation = sum}, Tensor(DType::boolean, Shape{})), Code::invalid_argument);
      EXPECT_EQ(made({.aggregation = sum}, Tensor::scalar(1)), std::nullopt);
      EXPECT_EQ(made({.aggregation = first}, Tensor(DType::boolean, Shape{})), std::nullopt);
    });
  }
}

TEST(Assignments, that_differ_between_ranks_name_the_calls_the_variables_and_their_lines) {
  on_workers({1, 1}, [](Strategy& workers) {
    const auto a = workers.variable<float>(Floats{1}, {.name = "a", .aggregation = VariableAggregation::sum});
    const auto b = workers.variable<float>(Floats{1}, {.name = "b", .aggregation = VariableAggregation::sum});
    constexpr unsigned line = __LINE__;
    const auto write = [&](ReplicaContext& replica) {
      const bool is_first = replica.replica_id_in_sync_group() == 0;
      is_first ? a.assign(Floats{2}) : b.assign_add(Floats{2});
    };
    expect_error(Code::mismatch,
                 {"\"assign to a\" at variables/kinds_test.cpp:" + std::to_string(line + 3),
                  "\"assign_add to b\" at variables/kinds_test.cpp:" + std::to_string(line + 3)},
                 [&] { workers.run(write); });
  });
}

}  // namespace
}  // namespace lockstep::test
