// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The statements of random programs that change the context.

#include "unit/strategy/random_program.hpp"

#include <thread>

namespace lockstep::test {

Program::Program(std::uint64_t seed, v1::MirroredStrategy& mine, MirroredStrategy& other, CallCounts& counts)
    : seed_(seed),
      mine_(mine),
      other_(other),
      counts_(counts),
      marker_(mine.variable<int>(0)),
      value_(mine.variable<int>(0)),
      sums_(mine.variable<int>(0, {.name = "sums", .aggregation = VariableAggregation::sum})),
      rows_(mine.variable<float>(std::vector<float>{0, 0}, {.name = "rows", .aggregation = VariableAggregation::sum})),
      first_rows_(mine.variable<float>(std::vector<float>{0, 0},
                                       {.name = "first", .aggregation = VariableAggregation::only_first_replica})),
      totals_(mine.sync_on_read_variable<int>(0, {.name = "totals", .aggregation = VariableAggregation::sum})) {
  int copy = 0;
  mine_.extended().update(marker_, [&copy](const auto& element) { element.updatable_component()[0] = copy++; });
}

bool Program::run() {
  Dice dice(seed_);
  guarded([&] { outside(dice); }, Place::outside());
  experimental_set_strategy(nullptr);
  check(Place::outside(), "end");
  return !failed_;
}

void Program::prepare() { static_cast<void>(default_strategy()); }

Strategy& Program::default_strategy() {
  static thread_local Strategy* fallback = nullptr;
  // before any scope, since it cannot be obtained inside of one
  if (fallback == nullptr) fallback = &get_strategy();
  return *fallback;
}

void Program::fail(std::string_view what) {
  if (!failed_.exchange(true)) ADD_FAILURE() << "program " << seed_ << ": " << what;
}

void Program::boom() {
  count("an exception");
  ++throws_;
  throw Boom();
}

void Program::check(const Place& place, std::string_view after) {
  const std::string text(after);
  expect(has_strategy() == (place.strategy != nullptr), "has_strategy after " + text);
  if (place.strategy != nullptr) expect(&get_strategy() == place.strategy, "get_strategy after " + text);
  expect(in_cross_replica_context() == place.cross_replica, "in_cross_replica_context after " + text);
  const ReplicaContext* replica = get_replica_context();
  expect((replica == nullptr ? -1 : replica->replica_id_in_sync_group()) == place.replica, "the replica after " + text);
  if (failed_) return;
  if (place.strategy != &other_) expect(marker_.value() == place.copy, "the copy that is read after " + text);
}

void Program::outside(Dice& dice) {
  for (int n = 2 + dice.roll(3); n > 0 && !failed_; --n) {
    const Place place = Place::outside();
    switch (dice.roll(6)) {
      case 0:
        count("experimental_set_strategy");
        experimental_set_strategy(&mine_);
        check(Place::in_scope(mine_), "experimental_set_strategy");
        guarded([&] { cross_replica(dice, 2, Place::in_scope(mine_)); }, Place::in_scope(mine_));
        experimental_set_strategy(nullptr);
        break;
      case 1: {
        count("a strategy that ends while it is current");
        OneDeviceStrategy brief;
        experimental_set_strategy(&brief);
        expect(&get_strategy() == &brief, "a brief strategy is not current");
        break;
      }
      case 2: {
        count("a scope that is closed inside of a step or an update");
        auto scope = std::make_unique<Held>(mine_);
        auto inner = dice.roll(2) == 0 ? std::make_unique<Held>(mine_) : nullptr;
        close_inside(dice, scope);
        if (inner) check(Place::in_scope(mine_), "an outer scope's end in a step");
        break;
      }
      default: guarded([&] { cross_replica(dice, 3, place); }, place);
    }
    check(place, "a statement outside");
  }
}

/// Closes `scope` during a step, merge or update that began in it.
void Program::close_inside(Dice& dice, std::unique_ptr<Held>& scope) {
  testing::internal::CaptureStderr();
  if (dice.roll(2) == 0) {
    mine_.run([&](ReplicaContext& replica) { replica.merge_call([&](Strategy&) { scope.reset(); }); });
  } else {
    mine_.extended().update(marker_, [&](const auto&) { scope.reset(); });
  }
  expect(testing::internal::GetCapturedStderr().find("nesting error") != std::string::npos, "no nesting error");
}

/// Statements in cross-replica context, or outside of any scope.
void Program::cross_replica(Dice& dice, int depth, const Place& place) {
  for (int n = 1 + dice.roll(3); n > 0 && !failed_; --n) {
    cross_replica_statement(dice, depth, place);
    check(place, "a cross-replica statement");
  }
}

void Program::cross_replica_statement(Dice& dice, int depth, const Place& place) {
  const int deeper = depth - 1;
  const auto in_scope = Place::in_scope(mine_);
  switch (dice.roll(depth > 0 ? 15 : 8)) {
    case 0:
    case 1:
    case 2: return cross_replica_call(dice, place);
    case 3: {
      if (place.strategy == nullptr) return;
      count("a scope that is refused");
      refused([&] { const Scope scope = other_.scope(); }, "mixed", place);
      Strategy& fallback = default_strategy();
      return refused([&] { const Scope scope = fallback.scope(); }, "nest", place);
    }
    case 4:
      if (place.strategy == nullptr) return;
      count("a run that is refused");
      return refused([&] { other_.run([] {}); }, "mixed", place);
    case 5:
      count("a thread");
      std::thread([this] { check(Place::outside(), "the start of a thread"); }).join();
      return;
    case 6: return call_update_non_slot(dice);
    case 7:
      if (dice.roll(8) != 0) return;
      boom();
    case 8:
    case 9: {
      count("Strategy::scope");
      const Scope scope = mine_.scope();
      check(in_scope, "scope");
      return cross_replica(dice, deeper, in_scope);
    }
    case 10: {
      count("scopes that end out of order");
      auto outer = std::make_unique<Held>(mine_);
      auto inner = std::make_unique<Held>(mine_);
      guarded([&] { cross_replica(dice, deeper, in_scope); }, in_scope);
      outer.reset();
      return;
    }
    case 11: return call_update(dice, deeper);
    default: return call_run(dice, deeper);
  }
}

void Program::call_update_non_slot(Dice& dice) {
  next_copy_ = 0;
  count("StrategyExtended::non_slot_devices");
  const auto devices = mine_.extended().non_slot_devices();
  const auto fn = [&] {
    check(Place::in_update(mine_, next_copy_), "update_non_slot");
    return next_copy_++;
  };
  if (dice.roll(2) == 0) {
    count("StrategyExtended::update_non_slot");
    mine_.extended().update_non_slot(devices, fn);
  } else {
    count("StrategyExtended::update_non_slot(ungrouped)");
    expect(mine_.extended().update_non_slot(ungrouped, devices, fn).size() == devices.size(), "non-slot results");
  }
}

void Program::call_update(Dice& dice, int depth) {
  const int faulty = dice.roll(6);
  const bool throws = dice.roll(4) == 0;
  std::unique_ptr<Held> left;
  int copy = 0;
  auto fn = [&, dice](const auto&) mutable {
    const Place place = Place::in_update(mine_, copy);
    check(place, "the start of an update");
    count("Variable::updatable_component");
    expect(marker_.updatable_component()[0] == copy, "the copy that may be written");
    if (copy == 1 && depth > 0) cross_replica(dice, depth - 1, place);
    if (copy == 0 && dice.roll(4) == 0) {
      count("a scope that is left open");
      left = std::make_unique<Held>(mine_);
    }
    if (throws && copy == faulty) boom();
    return copy++;
  };
  if (dice.roll(2) == 0) {
    count("StrategyExtended::update");
    mine_.extended().update(value_, fn);
  } else {
    count("StrategyExtended::update(ungrouped)");
    const auto results = mine_.extended().update(ungrouped, value_, fn);
    expect(results.size() == static_cast<std::size_t>(replicas()), "ungrouped results");
  }
}

void Program::call_run(Dice& dice, int depth) {
  const Dice inside(static_cast<std::uint64_t>(dice.roll(1 << 30)));
  const auto step = [&](ReplicaContext& replica) {
    Dice own = inside;
    in_step(replica, own, depth);
    return replica.replica_id_in_sync_group();
  };
  PerReplica<int> ids({0});
  switch (dice.roll(4)) {
    case 0:
      count("Strategy::run(options)");
      ids = mine_.run(step, RunOptions{.mode = RunMode::sequential});
      break;
    case 1:
      count("StrategyExtended::call_for_each_replica");
      ids = mine_.extended().call_for_each_replica(step);
      break;
    case 2:
      count("Strategy::experimental_run_v2");
      ids = mine_.experimental_run_v2(step);
      break;
    default: count("Strategy::run"); ids = mine_.run(step);
  }
  for (int i = 0; i < ids.size(); ++i) expect(ids.component(i) == i, "the results of run");
}

/// One replica's part of a step. All replicas execute the same statements, except for the injected faults.
void Program::in_step(ReplicaContext& replica, Dice& dice, int depth) {
  const int id = replica.replica_id_in_sync_group();
  const Place place = Place::in_step(mine_, id);
  check(place, "the start of a step");
  for (int n = 1 + dice.roll(4); n > 0; --n) {
    if (dice.roll(16) == 0) {
      const int lazy = dice.roll(replicas());
      if (dice.roll(3) != 0 || replicas() == 1) continue;
      if (lazy == id) return;
      count("a different number of meetings");
      ++throws_;
      replica.merge_call([](Strategy&) {});
    }
    step_statement(replica, dice, depth, place);
    check(place, "a statement of a step");
  }
}

void Program::step_statement(ReplicaContext& replica, Dice& dice, int depth, const Place& place) {
  const int id = place.replica;
  switch (dice.roll(12)) {
    case 0:
    case 1:
    case 2: return call_merge(replica, dice, depth);
    case 3: {
      count("an update in a step");
      const auto copies = mine_.extended().update(
          value_,
          [&](const auto&, int of) {
            check(Place::in_update(mine_, of), "an update in a step");
            return of;
          },
          id);
      return expect(copies.component(id) == id, "the results of an update in a step");
    }
    case 4:
      count("ReplicaContext::update");
      return replica.update(value_, [&](const auto&) { check(Place::in_update(mine_, id), "a replica's update"); });
    case 5:
      count("a run that is refused");
      refused([&] { mine_.run([] {}); }, "merge_call", place);
      return refused([&] { const Scope scope = mine_.scope(); }, "merge_call", place);
    case 6: {
      const int faulty = dice.roll(replicas());
      if (dice.roll(3) == 0 && faulty == id) boom();
      return;
    }
    default: return step_call(replica, dice);
  }
}

void Program::call_merge(ReplicaContext& replica, Dice& dice, int depth) {
  const Dice inside(static_cast<std::uint64_t>(dice.roll(1 << 30)));
  const int id = replica.replica_id_in_sync_group();
  const int result = replica.merge_call(
      [&](Strategy& strategy, const PerReplica<int>& ids) {
        count("ReplicaContext::merge_call");
        expect(&strategy == &mine_ && ids.size() == replicas(), "what a merge is given");
        Dice own = inside;
        if (own.roll(6) == 0) {
          count("a scope that is left open");
          left_open_.push_back(std::make_unique<Held>(mine_));
        }
        check(Place::in_scope(mine_), "the start of a merge");
        if (depth > 0) cross_replica(own, depth - 1, Place::in_scope(mine_));
        return ids;
      },
      id);
  expect(result == id, "the result of merge_call");
  check(Place::in_step(mine_, id), "merge_call");
}

}  // namespace lockstep::test
