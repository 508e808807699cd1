// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The main function of a test program in which each test is a run of its own, whose history is in the output for
// --gtest_output.

#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace {

namespace virtual_time = lockstep::virtual_time;

class RunOfEachTest : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { run_.emplace(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const int left = run_->end();
    testing::Test::RecordProperty("history", std::to_string(run_->history()));
    run_.reset();
    if (left > 0 && !leaks_threads(*test.result())) ADD_FAILURE() << left << " threads of this test have not ended";
  }

 private:
  static bool leaks_threads(const testing::TestResult& result) {
    for (int i = 0; i < result.test_property_count(); ++i) {
      if (std::string_view(result.GetTestProperty(i).key()) == "leaks_threads") return true;
    }
    return false;
  }

  std::optional<virtual_time::VirtualRun> run_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (virtual_time::is_available()) testing::UnitTest::GetInstance()->listeners().Append(new RunOfEachTest);
  return RUN_ALL_TESTS();
}
