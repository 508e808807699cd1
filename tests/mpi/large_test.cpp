// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// More elements than an int can count: more than 2^32 in shared memory, and more than 2^31 through messages, which take
// two and a half times the memory.

#include <lockstep/device/arena.hpp>
#include <lockstep/device/arena_pmr.hpp>
#include <lockstep/interop/mpi.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

/// A prime, so that data at a wrong place differs.
constexpr std::int64_t period = 1'000'003;

/// The first `period` elements of `rank`'s input; the remaining elements repeat them.
std::vector<std::int8_t> pattern_of(int rank) {
  std::vector<std::int8_t> pattern(period);
  std::uint32_t state = 12345u + 77u * static_cast<unsigned>(rank);
  for (std::int8_t& x : pattern) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<std::int8_t>(state >> 24);
  }
  return pattern;
}

/// In bytes; 0 if unknown.
std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return 1024 * std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10);
  }
  return 0;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The minimum over all ranks.
std::int64_t least(std::int64_t value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  return value;
}

TEST(Large, all_reduce_of_more_elements_than_an_int_counts) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  ASSERT_EQ(comm.size(), 2);
  const bool in_messages = variable("LOCKSTEP_SHARED_MEMORY") == "0";
  const std::int64_t count = (std::int64_t{1} << (in_messages ? 31 : 32)) + 4097;
  const std::int64_t needed = 2 * ((in_messages ? 5 * count / 2 : count) + (std::int64_t{1} << 29));
  const std::int64_t available = least(available_memory());
  if (available < needed) {
    GTEST_SKIP() << "2 ranks need " << (needed >> 20) << " MiB of memory; " << (available >> 20) << " are free";
  }
  const std::pmr::polymorphic_allocator<std::int8_t> arena(arena_pmr_resource());
  std::pmr::vector<std::int8_t> values(arena);
  values.reserve(static_cast<std::size_t>(count));
  if (least(is_in_arena(values.data(), values.capacity()) ? 1 : 0) == 0) {
    GTEST_SKIP() << "the arena has no room for " << count << " bytes of each rank: " << arena_status().text;
  }
  const auto own = pattern_of(comm.rank());
  for (std::int64_t i = 0; i < count; i += period)
    values.insert(values.end(), own.begin(), own.begin() + std::min(period, count - i));
  comm.all_reduce(std::span(values), ReduceOp::sum);

  std::vector<std::int8_t> expected = pattern_of(0);
  const auto other = pattern_of(1);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::int8_t>(expected[i] + other[i]);
  for (std::int64_t i = 0; i < count; i += period) {
    ASSERT_EQ(std::memcmp(values.data() + i, expected.data(), static_cast<std::size_t>(std::min(period, count - i))), 0)
        << "in the " << period << " elements from " << i;
  }
}

}  // namespace
}  // namespace lockstep::test
