// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// LOCKSTEP_TEST_PROGRAMS is the number of random programs to run, LOCKSTEP_TEST_FIRST_SEED the first of their seeds.
// The default is some hundreds of programs with QUICK_TESTS, else 10,000.

#include "unit/strategy/random_program.hpp"

#include "support/quick.hpp"

#include <cstdlib>

namespace lockstep::test {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomPrograms, leave_every_thread_in_the_context_it_was_in) {
  const std::uint64_t programs = setting("LOCKSTEP_TEST_PROGRAMS", is_quick() ? 400 : 10000);
  const std::uint64_t first = setting("LOCKSTEP_TEST_FIRST_SEED", 1);
  Program::prepare();
  std::vector<std::unique_ptr<v1::MirroredStrategy>> strategies;
  for (int count = 1; count <= 4; ++count)
    strategies.push_back(std::make_unique<v1::MirroredStrategy>(logical_cpus(count)));
  MirroredStrategy other = mirrored(2);
  CallCounts counts{};
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    Program program(seed, *strategies[seed % strategies.size()], other, counts);
    if (!program.run()) break;
  }
  // each call occurs in some of some hundreds of programs, and in many of 10,000
  const int least = programs >= 10000 ? 100 : programs >= 400 ? 1 : 0;
  for (std::size_t call = 0; call < counts.size(); ++call) EXPECT_GE(counts[call], least) << call_names[call];
}

}  // namespace
}  // namespace lockstep::test
