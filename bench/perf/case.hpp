// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One call to be measured.

#pragma once

#include "bench/harness/collective.hpp"
#include "bench/perf/options.hpp"

#include <lockstep/core/device.hpp>

#include <cstdint>
#include <vector>

namespace perf {

/// The ranks and replicas of the job, seen from one rank.
struct Job {
  int rank = 0;
  int ranks = 1;
  int replicas_per_rank = 1;
  int root = 0;
  std::vector<lockstep::Device> devices;  ///< device of each local replica's buffers

  [[nodiscard]] int replicas() const noexcept { return ranks * replicas_per_rank; }
  [[nodiscard]] int first_replica(int of_rank) const noexcept { return of_rank * replicas_per_rank; }
  [[nodiscard]] bool is_root() const noexcept { return rank == root; }
  /// Messages go between the ranks of a pair: 0 and 1, 2 and 3, ...; the last of an odd number of ranks has no partner.
  [[nodiscard]] bool is_first_of_pair() const noexcept { return rank % 2 == 0; }
  [[nodiscard]] int partner() const noexcept { return is_first_of_pair() ? rank + 1 : rank - 1; }
  [[nodiscard]] bool has_partner() const noexcept { return partner() < ranks; }
};

struct Case {
  Collective collective = Collective::all_reduce;
  lockstep::DType dtype = lockstep::DType::f32;
  lockstep::ReduceOp op = lockstep::ReduceOp::sum;  ///< ignored if the collective does not reduce
  std::int64_t count = 1;  ///< elements of a replica's input or output, whichever is longer; 0 without data
  Placement placement = Placement::out_of_place;
  Form form = Form::blocking;

  [[nodiscard]] bool reduces() const noexcept { return traits(collective).reduces; }
  [[nodiscard]] lockstep::DType result_dtype() const noexcept {
    return reduces() ? lockstep::result_dtype(op, dtype) : dtype;
  }
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return count * static_cast<std::int64_t>(lockstep::size_of(dtype));
  }
  /// Bytes of a replica's input, and of its output.
  [[nodiscard]] std::int64_t input_bytes(int replica, int replicas) const noexcept;
  [[nodiscard]] std::int64_t output_bytes(int replica, int replicas) const noexcept;
  /// Number of elements that one replica has for another, if it has `count` for all. Uneven parts have 1.5 or 0.5 times
  /// the average, alternately.
  [[nodiscard]] std::int64_t pair_count(int source, int target, int replicas) const noexcept;
  /// The same for the replica that the elements are scattered to, or gathered from.
  [[nodiscard]] std::int64_t part_count(int replica, int replicas) const noexcept {
    return pair_count(replica, 0, replicas);
  }
  /// In place needs a collective that supports it, and a result of the input's dtype; the mean of integers is f64.
  [[nodiscard]] bool is_possible() const noexcept {
    return placement == Placement::out_of_place || (traits(collective).has_in_place && result_dtype() == dtype);
  }
};

/// All calls of a sweep, out of place; for each collective, form, dtype and op the largest is last. Local.
[[nodiscard]] std::vector<Case> cases(const Options& options, const Job& job);

}  // namespace perf
