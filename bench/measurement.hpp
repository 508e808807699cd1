// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How one row is measured.

#pragma once

#include "buffers.hpp"
#include "options.hpp"
#include "peer.hpp"

#include <lockstep/interop/mpi.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perf {

/// One call to be measured.
struct Case {
  std::string collective = "all_reduce";
  lockstep::DType dtype = lockstep::DType::f32;
  lockstep::ReduceOp op = lockstep::ReduceOp::sum;
  std::int64_t count = 1;  ///< elements of each rank
  Placement placement = Placement::out_of_place;

  [[nodiscard]] std::int64_t bytes() const noexcept {
    return count * static_cast<std::int64_t>(lockstep::size_of(dtype));
  }
  [[nodiscard]] std::int64_t result_bytes() const noexcept {
    return count * static_cast<std::int64_t>(lockstep::size_of(lockstep::result_dtype(op, dtype)));
  }
  /// In place needs a result of the inputs' own type, which the mean of integers has not.
  [[nodiscard]] bool is_possible() const noexcept {
    return placement == Placement::out_of_place || lockstep::result_dtype(op, dtype) == dtype;
  }
};

/// All calls of a sweep, out of place. Local.
[[nodiscard]] std::vector<Case> cases(const Options& options);

/// What rank 0 knows afterwards.
struct Result {
  double time_us = 0;  ///< median over the calls of the slowest rank's time
  std::optional<double> mpi_time_us;
  std::optional<std::int64_t> wrong;      ///< elements of all ranks and calls; none when results were not checked
  std::optional<std::int64_t> mpi_wrong;  ///< the same of MPI's results

  [[nodiscard]] bool is_right() const noexcept { return wrong.value_or(0) == 0 && mpi_wrong.value_or(0) == 0; }
};

/// The bytes of memory that a rank needs for `options`. Local.
[[nodiscard]] std::int64_t memory_bytes(const Options& options);

/// Runs cases. Every rank makes the same calls.
///
/// A round is: write the input, barrier, one timed call, read (and check) the output; then the same for the peer, with
/// buffers of its own. Nothing but the call itself is timed; the times of all ranks meet after the last round. Barriers
/// and the gathering of times go over a communicator of their own, through MPI itself: what is measured does not
/// measure itself.
class Measurement {
 public:
  /// Collective over the job.
  explicit Measurement(const Options& options);
  /// Collective. The result is whole on rank 0 only.
  [[nodiscard]] Result run(const Case& what);

 private:
  struct Side;
  template <class Call>
  void round(Side& side, std::int64_t call, bool is_timed, Call make_call);
  [[nodiscard]] double median_of_slowest_us(const std::vector<double>& seconds) const;
  [[nodiscard]] std::optional<std::int64_t> total(std::int64_t wrong) const;

  const Options& options_;
  OwnComm control_;
  OwnComm peer_comm_;
  lockstep::Communicator communicator_;
  Buffers ours_;
  std::optional<Buffers> peers_;
  std::int64_t calls_ = 0;  // of all cases: no two in a row have the same values
};

}  // namespace perf
