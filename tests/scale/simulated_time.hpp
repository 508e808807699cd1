// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The clock of the simulation, which all ranks share. It advances only while ranks wait for it: in calls of MPI, and in
// the functions below.

#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// CPU time of one call that polls MPI, for any number of requests.
inline constexpr double poll_seconds = 3e-8;
/// Time until a rank sees a word that another rank of its node has written: the round trip of a cache line.
inline constexpr double cache_line_seconds = 1e-7;

/// Lets `seconds` of simulated time pass on this rank.
void pass_time(double seconds);
/// Charges the time in which one core loads and stores `bytes` bytes in total.
void charge_memory(std::size_t bytes);
/// Whether copies of this rank take simulated time (charged_copy.cpp).
enum class Copies : std::uint8_t { free, charged };
void set_copies(Copies copies);
/// Charges one copy of `bytes` bytes, if copies are charged.
void charge_copy(std::size_t bytes);
/// All ranks return at the same simulated time, which a barrier cannot do. Returns that time.
double meet();
/// Simulated microseconds of the slowest rank since `begin`. Collective.
double slowest_us(double begin);

/// Simulated seconds since the start of the simulation.
double now();

/// Calls `step` until it returns true. If a call of `step` takes no simulated time, it has only read words that other
/// ranks of the node write: then time passes until such a word can have changed.
template <class Step>
void poll_until(Step step) {
  while (true) {
    const double before = now();
    if (step()) return;
    if (now() == before) pass_time(cache_line_seconds);
  }
}

}  // namespace lockstep::detail
