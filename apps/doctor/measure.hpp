// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Measurements: a fixed computation, links of two ranks, the offset of wall clocks.

#pragma once

#include "doctor/facts.hpp"
#include "doctor/messages.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <chrono>
#include <vector>

namespace doctor {

/// The mean time of some repetitions of a fixed computation, in ms; takes about 0.1 s. Local.
[[nodiscard]] double compute_ms();

/// Latency and bandwidth of `link`; both of its ranks call it, and rank `link.first` gets the values. Takes about
/// `seconds`, and a second or two more on a very slow link; on a timeout sets `link.error`.
void measure_link(Link& link, int rank, double seconds);

/// Time of all_reduce of 64 KiB over `pair`, in us; about `seconds`. Collective. Throws lockstep::Error.
[[nodiscard]] double all_reduce_us(const lockstep::Communicator& pair, double seconds);

/// The server of `measure_clock` on rank `other`, for rank 0.
void answer_clock();
/// The wall clock of `other` minus that of this rank, and its uncertainty: half of the shortest round trip. The error
/// stays -1 on a timeout.
void measure_clock(int other, RankFacts& facts);

/// The pairs to measure, at most `most`: of the lowest ranks of the nodes, then of ranks inside each node; neighbours
/// first.
[[nodiscard]] std::vector<Link> choose_links(const std::vector<RankFacts>& ranks, std::size_t most);

}  // namespace doctor
