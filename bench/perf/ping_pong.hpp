// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The distance of two cores: the round-trip time of a cache line. On virtual machines it distinguishes states that
// nothing else shows, and that bound what any schedule inside a node can reach.

#pragma once

#include "bench/perf/peer.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace perf {

/// A flag in memory that the ranks of a node share. Pinned.
class PingPong {
 public:
  /// Collective over `node`, whose ranks share memory.
  explicit PingPong(const OwnComm& node);
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;
  ~PingPong();

  /// The time of the fastest of many batches, on the first rank of `node`; none on other ranks, for a single rank, and
  /// if memory cannot be shared. Collective; takes about `most` at most.
  [[nodiscard]] std::optional<double> round_trip_us(std::chrono::milliseconds most);

 private:
  [[nodiscard]] double first_rank_us(std::chrono::milliseconds most);
  void second_rank();

  const OwnComm& node_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::uint32_t* flag_ = nullptr;
};

}  // namespace perf
