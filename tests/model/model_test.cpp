// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random calls against the model. LOCKSTEP_TEST_CALLS is the number of calls, LOCKSTEP_TEST_MISMATCHES the number of
// calls in which one rank differs, LOCKSTEP_TEST_FIRST_SEED the first of their seeds. A call that fails is repeated
// alone with its seed and the number 1. If LOCKSTEP_TEST_GO_ON is set, a failure ends only the calls with its layout.

#include "model/deviation.hpp"
#include "model/judge.hpp"

#include "support/function_ref.hpp"
#include "support/logical_cpus.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::test {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Calls with one layout.
constexpr std::uint64_t calls_per_layout = 40;

/// A difference between the library and the model.
using Differs = std::runtime_error;

/// Calls `body(strategy, seed, layout, rank)` on each rank for all seeds. The layout depends on the seed only.
void on_seeds(std::uint64_t calls, FunctionRef<void(Strategy&, std::uint64_t seed, const Layout&, int rank)> body) {
  const std::uint64_t first = setting("LOCKSTEP_TEST_FIRST_SEED", 1);
  CommunicatorOptions options;
  options.warn_after = std::chrono::minutes(1);
  options.fail_after = std::chrono::minutes(2);
  for (std::uint64_t seed = first; seed < first + calls;) {
    const std::uint64_t block = seed / calls_per_layout;
    const std::uint64_t end = std::min(first + calls, (block + 1) * calls_per_layout);
    const Layout layout = make_layout(block);
    std::atomic<bool> failed{false};
    try {
      on_ranks(
          layout.counts,
          [&](Communicator& communicator) {
            const auto run_all = [&](Strategy& strategy) {
              for (std::uint64_t s = seed; s < end && !failed; ++s) {
                try {
                  body(strategy, s, layout, communicator.rank());
                } catch (const std::exception& error) {
                  if (!failed.exchange(true)) ADD_FAILURE() << "seed " << s << ": " << error.what();
                  throw;
                }
              }
            };
            if (layout.ranks() == 1 && block % 2 == 0) {
              MirroredStrategy strategy(logical_cpus(layout.replicas()));
              run_all(strategy);
            } else {
              MultiWorkerMirroredStrategy strategy(communicator);
              run_all(strategy);
            }
          },
          options);
    } catch (const std::exception&) {
      if (!failed) throw;  // a failed call has been reported
    }
    if (failed && std::getenv("LOCKSTEP_TEST_GO_ON") == nullptr) return;
    seed = end;
  }
}

/// Throws unless the outcome of the call is that of the model.
void compare(Strategy& strategy, const Call& call, const Layout& layout, int rank) {
  const Outcome wanted = expected(call, layout, rank);
  std::string text;
  const Outcome got = performed(strategy, spelled(call, layout, rank), layout, rank, text);
  if (got == wanted) return;
  throw Differs("layout " + to_string(layout) + ", rank " + std::to_string(rank) + "\n  call: " + to_string(call) +
                " (" + all_nests()[call.nest].facts.name + ")\n  expected: " + to_string(wanted) +
                "\n  library: " + to_string(got) + " " + text);
}

/// Prints how many calls of each kind were made.
template <std::size_t n>
void report(const std::array<std::atomic<int>, n>& counts, const std::array<std::string_view, n>& names) {
  for (std::size_t i = 0; i < n; ++i) std::cout << names[i] << ": " << counts[i] << "\n";
}

TEST(Model, agrees_with_random_calls_by_bits) {
  std::array<std::atomic<int>, kind_count> counts{};
  std::atomic<int> refused{0};
  on_seeds(setting("LOCKSTEP_TEST_CALLS", is_quick() ? 400 : 2000),
           [&](Strategy& strategy, std::uint64_t seed, const Layout& layout, int rank) {
             const Call call = make_call(seed, layout, all_facts());
             compare(strategy, call, layout, rank);
             if (rank != 0) return;
             ++counts[static_cast<std::size_t>(call.kind)];
             if (expected(call, layout, rank).error) ++refused;
           });
  report(counts, kind_names);
  std::cout << "refused: " << refused << "\n";
}

TEST(Model, agrees_that_ranks_with_different_arguments_get_one_error_and_go_on) {
  std::array<std::atomic<int>, change_count> counts{};
  const std::uint64_t calls = setting("LOCKSTEP_TEST_MISMATCHES", is_quick() ? 100 : 400);
  std::atomic<std::uint64_t> made{0};
  std::mutex mutex;
  std::map<std::uint64_t, std::string> texts;  // of errors, by seed
  on_seeds(4 * calls, [&](Strategy& strategy, std::uint64_t seed, const Layout& layout, int rank) {
    Call call = make_call(seed, layout, all_facts());
    Dice dice(seed * 3 + 1);
    const auto deviation = make_deviation(dice, call, layout);
    if (!deviation) return;
    const bool deviates = rank == deviation->rank;
    std::string text;
    const Outcome got = performed(strategy, deviates ? deviation->call : call, layout, rank, text);
    if (got.error != deviation->error) {
      throw Differs("layout " + to_string(layout) + ", rank " + std::to_string(rank) + "\n  call: " + to_string(call) +
                    " (" + all_nests()[call.nest].facts.name + ")\n  on rank " + std::to_string(deviation->rank) +
                    " another " + std::string(change_names[static_cast<std::size_t>(deviation->change)]) + ": " +
                    to_string(deviation->call) + "\n  expected: Error(" +
                    std::string(lockstep::to_string(deviation->error)) + ")\n  library: " + to_string(got) + " " +
                    text);
    }
    text = text.substr(0, text.find("; this rank was inside a merge_call"));  // a hint for this rank
    {
      const std::lock_guard lock(mutex);
      const std::string& first = texts.emplace(seed, text).first->second;
      if (first != text)
        throw Differs(to_string(call) + "\n  library: the ranks have different errors: " + first + "\n  " + text);
    }
    compare(strategy, call, layout, rank);
    if (rank != 0) return;
    ++counts[static_cast<std::size_t>(deviation->change)];
    ++made;
  });
  report(counts, change_names);
  if (calls >= 100 && !HasFailure()) {
    EXPECT_GE(made, calls);
  }
}

TEST(Model, agrees_that_ranks_that_use_variables_differently_get_one_error_and_go_on) {
  std::atomic<int> made{0};
  on_seeds(setting("LOCKSTEP_TEST_MISMATCHES", is_quick() ? 100 : 400) / 4,
           [&](Strategy& strategy, std::uint64_t seed, const Layout& layout, int rank) {
             if (layout.ranks() == 1) return;
             static_cast<void>(variable_deviation(strategy, seed, layout, rank));
             if (rank == 0) ++made;
           });
  std::cout << "differences with variables: " << made << "\n";
}

}  // namespace
}  // namespace lockstep::test
