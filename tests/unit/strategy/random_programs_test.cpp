// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random programs of scopes, steps, merges, updates and exceptions, in each other. After every statement the context of
// the thread must be the one that a plain model of the rules expects. A program is its seed.
//
// LOCKSTEP_TEST_PROGRAMS and LOCKSTEP_TEST_FIRST_SEED say how many and which; the default is some hundreds with
// QUICK_TESTS, else 10,000.

#include "unit/strategy/strategies.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace lockstep::test {
namespace {

enum class Call : std::uint8_t {
  scope,
  scopes_out_of_order,
  scope_closed_inside,
  scope_left_open,
  refused_scope,
  set_strategy,
  strategy_ends,
  run,
  sequential_run,
  refused_run,
  call_for_each_replica,
  merge_call,
  all_reduce,
  update,
  ungrouped_update,
  update_in_step,
  replica_update,
  update_non_slot,
  reduce,
  reduce_to,
  values_from_function,
  local_results,
  assign,
  thread,
  user_exception,
  unequal_meetings,
  count
};

/// What a program throws on purpose.
struct Boom {};

/// Where the model says that a thread is. `copy` is the copy of a variable that is read there.
struct Place {
  Strategy* strategy = nullptr;  // null: the default one
  bool cross_replica = false;
  int replica = 0;  // -1: none
  int copy = 0;

  [[nodiscard]] static Place outside() { return {}; }
  [[nodiscard]] static Place in_scope(Strategy& strategy) { return {&strategy, true, -1, 0}; }
  [[nodiscard]] static Place in_update(Strategy& strategy, int copy) { return {&strategy, true, -1, copy}; }
  [[nodiscard]] static Place in_step(Strategy& strategy, int replica) { return {&strategy, false, replica, replica}; }
};

/// The same numbers on every replica that copies one.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}
  int roll(int sides) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int>((state_ >> 11) % static_cast<std::uint64_t>(sides));
  }

 private:
  std::uint64_t state_;
};

struct Held {
  explicit Held(Strategy& strategy) : scope(strategy.scope()) {}
  Scope scope;
};

using Counts = std::array<std::atomic<int>, static_cast<std::size_t>(Call::count)>;

class Program {
 public:
  Program(std::uint64_t seed, MirroredStrategy& mine, MirroredStrategy& other, Counts& counts)
      : seed_(seed),
        mine_(mine),
        other_(other),
        counts_(counts),
        marker_(mine.variable<int>(0)),
        value_(mine.variable<int>(0)) {
    int copy = 0;
    mine_.extended().update(marker_, [&copy](std::span<int> element) { element[0] = copy++; });
  }

  /// True if nothing was wrong.
  bool run() {
    Dice dice(seed_);
    guarded([&] { outside(dice); }, Place::outside());
    experimental_set_strategy(nullptr);
    check(Place::outside(), "end");
    return !failed_;
  }

 private:
  void count(Call call) { ++counts_[static_cast<std::size_t>(call)]; }
  void fail(std::string_view what) {
    if (!failed_.exchange(true)) ADD_FAILURE() << "program " << seed_ << ": " << what;
  }
  void expect(bool holds, std::string_view what) {
    if (!holds) fail(what);
  }

  void check(const Place& place, std::string_view after) {
    const std::string text(after);
    expect(has_strategy() == (place.strategy != nullptr), "has_strategy after " + text);
    if (place.strategy != nullptr) expect(&get_strategy() == place.strategy, "get_strategy after " + text);
    expect(in_cross_replica_context() == place.cross_replica, "in_cross_replica_context after " + text);
    const ReplicaContext* replica = get_replica_context();
    expect((replica == nullptr ? -1 : replica->replica_id_in_sync_group()) == place.replica,
           "the replica after " + text);
    if (failed_) return;
    if (place.strategy != &other_) expect(marker_.value() == place.copy, "the copy that is read after " + text);
  }

  /// `body`, whose exceptions end it; then this thread is where it was.
  template <class Body>
  void guarded(const Body& body, const Place& place) {
    try {
      body();
    } catch (const Boom&) {
      expect(throws_ > 0, "an exception that nobody threw");
    } catch (const Error& error) {
      const bool announced = error.text().find("different number") != std::string::npos;
      expect(throws_ > 0 && announced, std::string("an error: ") + error.what());
    }
    check(place, "an exception or its absence");
  }
  template <class Body>
  void refused(const Body& body, std::string_view part, const Place& place) {
    try {
      body();
      fail("a call was not refused: " + std::string(part));
    } catch (const Error& error) {
      expect(error.code() == Code::failed_precondition && error.text().find(part) != std::string::npos, error.what());
    }
    check(place, "a refused call");
  }

  void outside(Dice& dice) {
    for (int n = 2 + dice.roll(3); n > 0 && !failed_; --n) {
      Place place = Place::outside();
      switch (dice.roll(6)) {
        case 0:
          count(Call::set_strategy);
          experimental_set_strategy(&mine_);
          check(Place::in_scope(mine_), "experimental_set_strategy");
          guarded([&] { cross_replica(dice, 2, Place::in_scope(mine_)); }, Place::in_scope(mine_));
          experimental_set_strategy(nullptr);
          break;
        case 1: {
          count(Call::strategy_ends);
          OneDeviceStrategy brief;
          experimental_set_strategy(&brief);
          expect(&get_strategy() == &brief, "a brief strategy is not current");
          break;
        }
        case 2: {
          count(Call::scope_closed_inside);
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

  /// Closes `scope` in the middle of something that begins in it.
  void close_inside(Dice& dice, std::unique_ptr<Held>& scope) {
    testing::internal::CaptureStderr();
    if (dice.roll(2) == 0) {
      mine_.run([&](ReplicaContext& replica) { replica.merge_call([&](Strategy&) { scope.reset(); }); });
    } else {
      mine_.extended().update(marker_, [&](std::span<int>) { scope.reset(); });
    }
    expect(testing::internal::GetCapturedStderr().find("nesting error") != std::string::npos, "no nesting error");
  }

  /// Statements in cross-replica context, or outside everything.
  void cross_replica(Dice& dice, int depth, const Place& place) {
    for (int n = 1 + dice.roll(3); n > 0 && !failed_; --n) {
      cross_replica_statement(dice, depth, place);
      check(place, "a cross-replica statement");
    }
  }

  void cross_replica_statement(Dice& dice, int depth, const Place& place) {
    const int deeper = depth - 1;
    const bool updating = place.copy != 0;
    const auto in_scope = Place::in_scope(mine_);
    switch (dice.roll(depth > 0 ? 15 : 8)) {
      case 0: return call_reduce(dice);
      case 1: {
        count(Call::values_from_function);
        const auto ids = mine_.experimental_distribute_values_from_function([&](const ValueContext& context) {
          check(place, "a value function");
          return context.replica_id_in_sync_group;
        });
        count(Call::local_results);
        expect(mine_.experimental_local_results(ids).size() == static_cast<std::size_t>(ids.size()), "local results");
        return;
      }
      case 2:
        if (updating) return;  // it writes that copy alone there
        count(Call::assign);
        value_.assign(dice.roll(100));
        return;
      case 3: {
        if (place.strategy == nullptr) return;
        count(Call::refused_scope);
        refused([&] { const Scope scope = other_.scope(); }, "mixed", place);
        Strategy& fallback = default_strategy();
        return refused([&] { const Scope scope = fallback.scope(); }, "nest", place);
      }
      case 4:
        if (place.strategy == nullptr) return;
        count(Call::refused_run);
        return refused([&] { other_.run([] {}); }, "mixed", place);
      case 5:
        count(Call::thread);
        std::thread([this] { check(Place::outside(), "the start of a thread"); }).join();
        return;
      case 6:
        count(Call::update_non_slot);
        next_copy_ = 0;
        mine_.extended().update_non_slot(mine_.extended().non_slot_devices(),
                                         [&] { check(Place::in_update(mine_, next_copy_++), "update_non_slot"); });
        return;
      case 7:
        if (dice.roll(8) != 0) return;
        count(Call::user_exception);
        ++throws_;
        throw Boom();
      case 8:
      case 9: {
        count(Call::scope);
        const Scope scope = mine_.scope();
        check(in_scope, "scope");
        return cross_replica(dice, deeper, in_scope);
      }
      case 10: {
        count(Call::scopes_out_of_order);
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

  void call_reduce(Dice& dice) {
    const int add = dice.roll(10);
    const int replicas = mine_.num_replicas_in_sync();
    const auto ids = mine_.experimental_distribute_values_from_function(
        [&](const ValueContext& context) { return context.replica_id_in_sync_group + add; });
    const int sum = replicas * (replicas - 1) / 2 + replicas * add;
    count(Call::reduce);
    expect(mine_.reduce(ReduceOp::sum, ids) == sum, "reduce");
    count(Call::reduce_to);
    expect(mine_.extended().reduce_to(ReduceOp::sum, ids, marker_).value() == sum, "reduce_to");
  }

  void call_update(Dice& dice, int depth) {
    const int faulty = dice.roll(6);
    const bool throws = dice.roll(4) == 0;
    std::unique_ptr<Held> left;
    int copy = 0;
    auto fn = [&, dice](std::span<int>) mutable {
      const Place place = Place::in_update(mine_, copy);
      check(place, "the start of an update");
      if (copy == 1 && depth > 0) cross_replica(dice, depth - 1, place);
      if (copy == 0 && dice.roll(4) == 0) {
        count(Call::scope_left_open);
        left = std::make_unique<Held>(mine_);
      }
      if (throws && copy == faulty) {
        count(Call::user_exception);
        ++throws_;
        throw Boom();
      }
      return copy++;
    };
    if (dice.roll(2) == 0) {
      count(Call::update);
      mine_.extended().update(value_, fn);
    } else {
      count(Call::ungrouped_update);
      const auto results = mine_.extended().update(ungrouped, value_, fn);
      expect(results.size() == static_cast<std::size_t>(mine_.num_replicas_in_sync()), "ungrouped results");
    }
  }

  void call_run(Dice& dice, int depth) {
    const Dice inside(static_cast<std::uint64_t>(dice.roll(1 << 30)));
    const auto step = [&](ReplicaContext& replica) {
      Dice own = inside;
      in_step(replica, own, depth);
      return replica.replica_id_in_sync_group();
    };
    PerReplica<int> ids({0});
    switch (dice.roll(3)) {
      case 0:
        count(Call::sequential_run);
        ids = mine_.run({.mode = RunMode::sequential}, step);
        break;
      case 1:
        count(Call::call_for_each_replica);
        ids = mine_.extended().call_for_each_replica(step);
        break;
      default: count(Call::run); ids = mine_.run(step);
    }
    for (int i = 0; i < ids.size(); ++i) expect(ids.component(i) == i, "the results of run");
  }

  /// One replica's part of a step. All replicas make the same statements but for the faults.
  void in_step(ReplicaContext& replica, Dice& dice, int depth) {
    const int id = replica.replica_id_in_sync_group();
    const int replicas = replica.num_replicas_in_sync();
    const Place place = Place::in_step(mine_, id);
    check(place, "the start of a step");
    for (int n = 1 + dice.roll(4); n > 0; --n) {
      switch (dice.roll(10)) {
        case 0:
        case 1:
          count(Call::all_reduce);
          expect(replica.all_reduce(ReduceOp::sum, id) == replicas * (replicas - 1) / 2, "all_reduce");
          break;
        case 2:
        case 3:
        case 4: call_merge(replica, dice, depth); break;
        case 5: {
          count(Call::update_in_step);
          const auto copies = mine_.extended().update(
              value_,
              [&](std::span<int>, int of) {
                check(Place::in_update(mine_, of), "an update in a step");
                return of;
              },
              id);
          expect(copies.component(id) == id, "the results of an update in a step");
          break;
        }
        case 6:
          count(Call::replica_update);
          replica.update(value_, [&](std::span<int>) { check(Place::in_update(mine_, id), "a replica's update"); });
          break;
        case 7: {
          count(Call::refused_run);
          refused([&] { mine_.run([] {}); }, "merge_call", place);
          refused([&] { const Scope scope = mine_.scope(); }, "merge_call", place);
          break;
        }
        case 8: {
          const int faulty = dice.roll(replicas);
          if (dice.roll(3) != 0 || faulty != id) break;
          count(Call::user_exception);
          ++throws_;
          throw Boom();
        }
        default: {
          const int lazy = dice.roll(replicas);
          if (dice.roll(6) != 0 || replicas == 1) break;
          if (lazy == id) return;
          count(Call::unequal_meetings);
          ++throws_;
          replica.merge_call([](Strategy&) {});
        }
      }
      check(place, "a statement of a step");
    }
  }

  void call_merge(ReplicaContext& replica, Dice& dice, int depth) {
    const Dice inside(static_cast<std::uint64_t>(dice.roll(1 << 30)));
    const int id = replica.replica_id_in_sync_group();
    const int result = replica.merge_call(
        [&](Strategy& strategy, const PerReplica<int>& ids) {
          count(Call::merge_call);
          expect(&strategy == &mine_ && ids.size() == mine_.num_replicas_in_sync(), "what a merge is given");
          Dice own = inside;
          if (own.roll(6) == 0) {
            count(Call::scope_left_open);
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

  static Strategy& default_strategy() {
    static thread_local Strategy* fallback = nullptr;
    if (fallback == nullptr) {
      // before anything is current, as it cannot be asked for inside
      fallback = &get_strategy();
    }
    return *fallback;
  }

 public:
  /// To be called outside everything, once on each thread that runs programs.
  static void prepare() { static_cast<void>(default_strategy()); }

 private:
  std::uint64_t seed_;
  MirroredStrategy& mine_;
  MirroredStrategy& other_;
  Counts& counts_;
  MirroredVariable<int> marker_;  // copy i is i
  MirroredVariable<int> value_;
  std::vector<std::unique_ptr<Held>> left_open_;  // by merges that have ended since
  int next_copy_ = 0;
  std::atomic<int> throws_{0};
  std::atomic<bool> failed_{false};
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomPrograms, leave_every_thread_in_the_context_it_was_in) {
  const bool quick = std::getenv("QUICK_TESTS") != nullptr;
  const std::uint64_t programs = setting("LOCKSTEP_TEST_PROGRAMS", quick ? 400 : 10000);
  const std::uint64_t first = setting("LOCKSTEP_TEST_FIRST_SEED", 1);
  Program::prepare();
  std::vector<std::unique_ptr<MirroredStrategy>> strategies;
  for (int count = 1; count <= 4; ++count)
    strategies.push_back(std::make_unique<MirroredStrategy>(logical_cpus(count)));
  MirroredStrategy other = mirrored(2);
  Counts counts{};
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    Program program(seed, *strategies[seed % strategies.size()], other, counts);
    if (!program.run()) break;
  }
  if (programs < 10000) return;
  for (std::size_t call = 0; call < counts.size(); ++call) EXPECT_GE(counts[call], 100) << "of call " << call;
}

}  // namespace
}  // namespace lockstep::test
