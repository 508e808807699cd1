// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One test for each case of cases.json and each placement of its replicas. Ranks are threads; under mpiexec (with
// CONFORMANCE_RANKS, their number) the cases of that many ranks run, each rank a process.

#include "conformance/devices.hpp"
#include "conformance/runner.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <mutex>

namespace lockstep::conformance {
namespace {

void report(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

/// A case with one placement.
class CaseTest : public testing::Test {
 public:
  CaseTest(const Json& one_case, Placement placement, bool under_mpi)
      : case_(one_case), placement_(std::move(placement)), under_mpi_(under_mpi) {}

  void TestBody() override {
    if (uses_gpus() && !not_for_gpus(case_).empty()) GTEST_SKIP() << not_for_gpus(case_);
    if (placement_.strategy != "multi_worker_mirrored") {
      report(run_case(case_, placement_, nullptr));
    } else if (under_mpi_) {
      CommunicatorOptions options = options_with_a_long_deadline();
      Communicator world = world_communicator(options);
      options.local_replicas = placement_.counts[static_cast<std::size_t>(world.rank())];
      Communicator communicator = world.duplicate(options);
      report(run_case(case_, placement_, &communicator));
    } else {
      std::mutex mutex;
      std::vector<std::string> failures;
      test::on_ranks(
          placement_.counts,
          [&](Communicator& communicator) {
            const auto found = run_case(case_, placement_, &communicator);
            const std::lock_guard lock(mutex);
            failures.insert(failures.end(), found.begin(), found.end());
          },
          options_with_a_long_deadline());
      report(failures);
    }
  }

 private:
  const Json& case_;
  Placement placement_;
  bool under_mpi_;
};

TEST(ConformanceResults, without_exactly_the_components_of_the_rank_differ) {
  const Json expectation = {{"replicas", {1, 2, 3}}};
  const Viewpoint second_of_two_ranks{.rank = 1, .replicas = 3, .first_replica = 1, .local_replicas = 2};
  const auto matches = [&](const std::vector<int>& components, int first) {
    Json all = Json::array();
    for (const int component : components) all.push_back(result_of(Tensor::scalar(component)));
    return !difference(expectation, {{"$replicas", all}, {"first", first}}, second_of_two_ranks);
  };
  EXPECT_TRUE(matches({2, 3}, 1));
  EXPECT_FALSE(matches({}, 1));
  EXPECT_FALSE(matches({2}, 1));
  EXPECT_FALSE(matches({1, 2}, 0));
  EXPECT_FALSE(matches({2, 4}, 1));
}

std::string suite_of(const Json& one_case) { return "conformance_" + one_case["area"].get<std::string>(); }

std::string name_of(const Json& one_case, const Placement& placement) {
  std::string name = one_case["id"].get<std::string>();
  if (!placement.moved) return name;
  name += "_on";
  for (const int count : placement.counts) name += "_" + std::to_string(count);
  return name;
}

bool register_cases() {
  const char* const ranks = std::getenv("CONFORMANCE_RANKS");
  for (const Json& one_case : all_cases()) {
    if (!not_applicable(one_case).empty()) continue;
    for (const Placement& placement : placements_of(one_case)) {
      if (ranks != nullptr &&
          (placement.strategy != "multi_worker_mirrored" || std::to_string(placement.counts.size()) != ranks)) {
        continue;
      }
      testing::RegisterTest(
          suite_of(one_case).c_str(), name_of(one_case, placement).c_str(), nullptr, nullptr, __FILE__, __LINE__,
          [&one_case, placement, ranks]() -> CaseTest* { return new CaseTest(one_case, placement, ranks != nullptr); });
    }
  }
  return true;
}

const bool registered = register_cases();

}  // namespace
}  // namespace lockstep::conformance
