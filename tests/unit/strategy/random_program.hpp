// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random programs of nested scopes, steps, merges, updates and exceptions. After every statement the context of the
// thread must be the one that a simple model of the rules expects. A seed determines a program.

#pragma once

#include "unit/strategy/random_calls.hpp"
#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// The exception that a program throws on purpose.
struct Boom {};

/// The context of a thread according to the model. `copy` is the copy of a variable that is read in it.
struct Place {
  Strategy* strategy = nullptr;  // null: the default one
  bool cross_replica = false;
  int replica = 0;  // -1: none
  int copy = 0;
  bool updating = false;

  [[nodiscard]] static Place outside() { return {}; }
  [[nodiscard]] static Place in_scope(Strategy& strategy) { return {&strategy, true, -1, 0}; }
  [[nodiscard]] static Place in_update(Strategy& strategy, int copy) { return {&strategy, true, -1, copy, true}; }
  [[nodiscard]] static Place in_step(Strategy& strategy, int replica) { return {&strategy, false, replica, replica}; }
};

/// Random numbers; copies give the same numbers on every replica.
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

class Program {
 public:
  Program(std::uint64_t seed, v1::MirroredStrategy& mine, MirroredStrategy& other, CallCounts& counts);

  /// Returns true if no check failed.
  bool run();
  /// Must be called outside of any scope, once on each thread that runs programs.
  static void prepare();

 private:
  void count(Call call) { ++counts_[call.index]; }
  void fail(std::string_view what);
  void expect(bool holds, std::string_view what) {
    if (!holds) fail(what);
  }
  void check(const Place& place, std::string_view after);
  [[noreturn]] void boom();
  [[nodiscard]] int replicas() const { return mine_.num_replicas_in_sync(); }
  [[nodiscard]] int sum_of_ids() const { return replicas() * (replicas() - 1) / 2; }
  static Strategy& default_strategy();

  /// Runs `body` and catches its exceptions; then checks that the thread's context is restored.
  template <class Body>
  void guarded(const Body& body, const Place& place) {
    try {
      body();
    } catch (const Boom&) {
      expect(throws_ > 0, "an exception that no replica threw");
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

  // statements that change the context
  void outside(Dice& dice);
  void close_inside(Dice& dice, std::unique_ptr<Held>& scope);
  void cross_replica(Dice& dice, int depth, const Place& place);
  void cross_replica_statement(Dice& dice, int depth, const Place& place);
  void call_update(Dice& dice, int depth);
  void call_update_non_slot(Dice& dice);
  void call_run(Dice& dice, int depth);
  void in_step(ReplicaContext& replica, Dice& dice, int depth);
  void step_statement(ReplicaContext& replica, Dice& dice, int depth, const Place& place);
  void call_merge(ReplicaContext& replica, Dice& dice, int depth);

  // statements that do not change the context
  void cross_replica_call(Dice& dice, const Place& place);
  void call_queries();
  void call_values(Dice& dice, const Place& place);
  void call_reduce(Dice& dice);
  void call_gather(const Place& place);
  void call_batch_reduce();
  void make_variables(Dice& dice, const Place& place);
  void read_variables(const Place& place);
  void write_variables(Dice& dice);
  void call_datasets(Dice& dice, const Place& place);
  void call_v1(Dice& dice, const Place& place);
  void step_call(ReplicaContext& replica, Dice& dice);
  void write_in_step(ReplicaContext& replica, Dice& dice);
  void scatter_in_step(Dice& dice);

  std::uint64_t seed_;
  v1::MirroredStrategy& mine_;
  MirroredStrategy& other_;
  CallCounts& counts_;
  MirroredVariable<int> marker_;  // copy i is i
  MirroredVariable<int> value_;
  MirroredVariable<int> sums_;
  MirroredVariable<float> rows_;
  MirroredVariable<float> first_rows_;
  SyncOnReadVariable<int> totals_;
  std::vector<std::unique_ptr<Held>> left_open_;  // scopes left open by merges that have ended
  int next_copy_ = 0;
  std::atomic<int> total_{0};  // sum of the values that all replicas have added to totals_
  std::atomic<int> throws_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace lockstep::test
