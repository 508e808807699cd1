// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What is found by the detector of data races, and what it lets loads return.

#include "races/races.hpp"
#include "races/cases.hpp"

#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

/// Threads then get memory that other threads have freed.
[[maybe_unused]] const int has_one_arena = mallopt(M_ARENA_MAX, 1);

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto in_order = std::memory_order_seq_cst;

/// Runs `work` for one seed. Returns its races.
template <class Work>
std::vector<std::string> races_of(std::uint64_t seed, const Work& work) {
  virtual_time::VirtualRun run({.seed = seed});
  const races::Detection detection({.seed = seed, .stale_one_in = 2, .at_atomic = virtual_time::preempt});
  work();
  std::vector<std::string> texts;
  for (const races::Race& race : detection.races()) texts.push_back(race.text);
  return texts;
}

/// Runs `work` once for each of some seeds, until one of the runs has a race. Returns its races.
template <class Work>
std::vector<std::string> races_of(const Work& work) {
  std::vector<std::string> races;
  for (std::uint64_t seed = 1; seed <= 50 && races.empty(); ++seed) races = races_of(seed, work);
  return races;
}

int pass(std::memory_order store, std::memory_order load) { return pass_value(store, load, false); }
int pass_by_fences(std::memory_order store, std::memory_order load) { return pass_value(store, load, true); }

/// All pairs that `work` returns for some seeds.
template <class Work>
std::set<std::pair<int, int>> all_of(const Work& work) {
  std::set<std::pair<int, int>> all;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) races_of(seed, [&all, &work] { all.insert(work()); });
  return all;
}
std::set<std::pair<int, int>> seen(std::memory_order store, std::memory_order load) {
  return all_of([store, load] { return store_and_load(store, load); });
}

TEST(Races, are_none_between_release_and_acquire) {
  EXPECT_EQ(races_of([] { EXPECT_EQ(pass(release, acquire), 42); }), std::vector<std::string>());
  EXPECT_EQ(races_of([] { EXPECT_EQ(pass(in_order, in_order), 42); }), std::vector<std::string>());
  EXPECT_EQ(races_of([] { EXPECT_EQ(pass_by_fences(release, acquire), 42); }), std::vector<std::string>());
}

TEST(Races, are_found_where_an_order_is_too_weak) {
  EXPECT_EQ(races_of([] { pass(relaxed, acquire); }).size(), 1U);
  EXPECT_EQ(races_of([] { pass(release, relaxed); }).size(), 1U);
  EXPECT_EQ(races_of([] { pass_by_fences(acquire, acquire); }).size(), 1U);
  EXPECT_EQ(races_of([] { pass_by_fences(release, release); }).size(), 1U);
}

TEST(Races, name_both_places_and_threads) {
  const std::vector<std::string> races = races_of([] { pass(relaxed, relaxed); });
  ASSERT_EQ(races.size(), 1U);
  EXPECT_TRUE(
      races[0].starts_with("data race of 4 bytes: first write of thread 1 (group 0) in lockstep::test::pass_value("))
      << races[0];
  EXPECT_NE(races[0].find(", then read of thread 2 (group 0) in lockstep::test::pass_value("), std::string::npos)
      << races[0];
}

TEST(Races, are_there_if_only_fences_lie_between) {
  EXPECT_EQ(races_of([] { pass_value_by_fences_alone(); }).size(), 1U);
}

TEST(Races, are_none_behind_a_lock_of_compare_exchange) {
  EXPECT_EQ(races_of([] { EXPECT_FALSE(enter_twice()); }), std::vector<std::string>());
}

TEST(Races, are_none_behind_a_release_sequence) {
  EXPECT_EQ(races_of([] { EXPECT_EQ(pass_value_through_relaxed_increment(), 42); }), std::vector<std::string>());
}

TEST(Races, are_none_under_a_mutex) {
  EXPECT_EQ(races_of([] { EXPECT_EQ(change_number(true), 20); }), std::vector<std::string>());
  EXPECT_FALSE(races_of([] { change_number(false); }).empty());
}

TEST(Races, are_none_in_memory_that_is_used_again) {
  bool is_the_same = false;
  EXPECT_EQ(races_of([&is_the_same] { is_the_same = uses_memory_again() || is_the_same; }), std::vector<std::string>());
  EXPECT_TRUE(is_the_same);
  EXPECT_EQ(races_of([] { free_while_read(); }).size(), 1U);
}

TEST(Races, are_none_in_the_memory_of_exceptions_that_is_used_again) {
  bool is_the_same = false;
  EXPECT_EQ(races_of([&is_the_same] { is_the_same = uses_memory_of_exceptions_again() || is_the_same; }),
            std::vector<std::string>());
  EXPECT_TRUE(is_the_same);
}

TEST(Races, are_none_in_static_variables) {
  EXPECT_EQ(races_of([] { EXPECT_EQ(use_static_variable(), 14); }), std::vector<std::string>());
}

TEST(Races, are_those_of_bytes) {
  EXPECT_EQ(races_of([] { EXPECT_EQ(write_neighbours(), 2); }), std::vector<std::string>());
}

TEST(OldValues, are_loaded_unless_all_accesses_are_in_one_order) {
  const std::set<std::pair<int, int>> in_one_order{{0, 1}, {1, 0}, {1, 1}};
  std::set<std::pair<int, int>> all = in_one_order;
  all.insert({0, 0});
  EXPECT_EQ(seen(in_order, in_order), in_one_order);
  EXPECT_EQ(seen(release, acquire), all);
  EXPECT_EQ(seen(relaxed, relaxed), all);
  EXPECT_EQ(seen(in_order, acquire), all);
  EXPECT_EQ(seen(release, in_order), all);
}

TEST(OldValues, are_not_loaded_behind_fences_in_one_order) {
  EXPECT_FALSE(all_of(store_and_load_with_fences).contains({0, 0}));
}

TEST(OldValues, are_not_older_than_what_another_thread_has_seen_before) {
  EXPECT_EQ(races_of([] { EXPECT_EQ(load_after_another_thread(), 1); }), std::vector<std::string>());
}

TEST(OldValues, are_never_older_than_what_the_thread_has_seen) {
  EXPECT_EQ(races_of([] { EXPECT_FALSE(goes_back()); }), std::vector<std::string>());
}

}  // namespace
}  // namespace lockstep::test
