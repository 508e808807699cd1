// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a job make of their measurements of MPI and TCP. The measurements themselves:
// tests/mpi/creation_test.cpp.

#include "transport/mpi/transport_trial.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

TrialResult measured(double tcp_small, double tcp_large) {
  return {
      20'000, 200'000, static_cast<std::uint64_t>(tcp_small * 20'000), static_cast<std::uint64_t>(tcp_large * 200'000),
      1,      0};
}

bool takes_tcp(const std::vector<TrialResult>& all) { return verdict_on(all).is_tcp; }

TEST(TransportTrial, takes_tcp_unless_it_is_clearly_slower) {
  EXPECT_TRUE(takes_tcp({measured(0.9, 0.8), {}}));
  EXPECT_TRUE(takes_tcp({measured(1.05, 1.05), {}}));
  EXPECT_FALSE(takes_tcp({measured(1.2, 1.1), {}}));
  EXPECT_FALSE(takes_tcp({measured(10, 3), {}}));  // MPI has something better
  EXPECT_TRUE(takes_tcp({measured(0.5, 1.5), {}}));
}

TEST(TransportTrial, takes_the_median_of_all_pairs) {
  EXPECT_TRUE(takes_tcp({measured(0.5, 0.5), {}, measured(9, 9), {}, measured(1, 1), {}}));
  EXPECT_FALSE(takes_tcp({measured(0.5, 0.5), {}, measured(9, 9), {}, measured(1.5, 1.5), {}}));
}

TEST(TransportTrial, takes_mpi_if_a_pair_has_no_tcp_or_none_was_measured) {
  TrialResult without;
  without.has_no_tcp = 1;
  const TrialVerdict verdict = verdict_on(std::vector<TrialResult>{measured(0.1, 0.1), {}, without, {}});
  EXPECT_FALSE(verdict.is_tcp);
  EXPECT_EQ(verdict.text, "rank 2 and its partner on another node could not measure TCP in time");
  EXPECT_FALSE(takes_tcp({{}, {}}));
}

TEST(TransportTrial, tells_what_was_measured) {
  EXPECT_EQ(verdict_on(std::vector<TrialResult>{measured(0.5, 2)}).text,
            "64 B there and back 10.0 us over TCP, 20.0 us by MPI; 256 KiB 400 us, 200 us");
}

}  // namespace
}  // namespace lockstep::detail
