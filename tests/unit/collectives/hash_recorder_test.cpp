// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What communicators write to the hash log.

#include "base/xxh64.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communicator.hpp>

#include "support/function_ref.hpp"
#include "support/logged_lines.hpp"
#include "support/ranks.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

/// The lines of the log that two ranks write.
std::vector<std::string> logged(FunctionRef<void(Communicator&)> body) {
  return logged_lines([&] { on_ranks({1, 1}, body); });
}

std::size_t count_of(const std::vector<std::string>& lines, const std::string& part) {
  std::size_t count = 0;
  for (const std::string& line : lines) count += line.find(part) != std::string::npos ? 1 : 0;
  return count;
}

std::string hash_of(const std::vector<float>& values) {
  return fmt::format("{:016x}", detail::xxh64(std::as_bytes(std::span(values))));
}

TEST(HashRecorder, hashes_inputs_before_and_outputs_after_each_kind_of_call) {
  const auto lines = logged([](Communicator& comm) {
    std::vector<float> values(5, static_cast<float>(comm.rank() + 1));
    comm.all_reduce(values, ReduceOp::sum);                      // 1 + 2 = 3
    comm.all_reduce_async(values, ReduceOp::sum).wait();         // 6
    auto plan = comm.prepare_all_reduce(values, ReduceOp::sum);  // 12, 24
    plan.run();
    plan.run_async().wait();
  });
  EXPECT_EQ(count_of(lines, "\"in\":[\"" + hash_of({1, 1, 1, 1, 1}) + "\"]"), 1u);
  EXPECT_EQ(count_of(lines, "\"in\":[\"" + hash_of({2, 2, 2, 2, 2}) + "\"]"), 1u);
  for (const float in : {3.0F, 6.0F, 12.0F}) {
    const std::string part = fmt::format("\"in\":[\"{}\"],\"out\":[\"{}\"]", hash_of(std::vector<float>(5, in)),
                                         hash_of(std::vector<float>(5, 2 * in)));
    EXPECT_EQ(count_of(lines, part), 2u) << part;
  }
  EXPECT_EQ(count_of(lines, "\"out\""), 8u);
}

TEST(HashRecorder, does_not_have_the_calls_of_the_library_itself) {
  const auto lines = logged([](Communicator& comm) {
    static_cast<void>(comm.duplicate({.name = "other"}));
    static_cast<void>(comm.recover());
    comm.barrier({.name = "mine", .only_name = true});
  });
  EXPECT_EQ(count_of(lines, "\"out\""), 0u);
}

TEST(HashRecorder, notes_operations_that_fail_and_reads_no_outputs_of_them) {
  const auto lines = logged([](Communicator& comm) {
    std::vector<float> values(comm.rank() == 0 ? 5u : 6u, 1);
    EXPECT_THROW(comm.all_reduce(values, ReduceOp::sum), Error);
    comm.barrier();
  });
  EXPECT_EQ(count_of(lines, "\"failed\":\"mismatch\""), 2u);
  EXPECT_EQ(count_of(lines, "\"out\":[]"), 2u);
  EXPECT_EQ(count_of(lines, "\"out\""), 2u);
}

}  // namespace
}  // namespace lockstep::test
