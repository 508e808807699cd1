// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI's own collective, as a program without lockstep calls it.

#pragma once

#include "bench/perf/call.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/peer.hpp"

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace perf {

/// Counts and displacements of each rank's part, in elements, as MPI's calls for uneven parts take them.
struct RankParts {
  std::vector<int> counts;
  std::vector<int> begins;
};

/// Makes one of MPI's calls; InFlight posts the nonblocking one. With several replicas per rank, the rank's inputs are
/// reduced (MPI_Reduce_local) or packed before the call, and the result is copied to its other outputs after it, as
/// such programs do.
class MpiCall final : public Call {
 public:
  using Request = MPI_Request;

  /// Local. `call` comes from peer_call().
  MpiCall(const PeerCall& call, const Job& job, const Buffers& buffers, const Options& options, MPI_Comm comm);
  void run() override;

  // for InFlight
  [[nodiscard]] int steps() const noexcept { return 1; }
  void post(int step, std::vector<MPI_Request>& requests);
  static void wait_all(std::vector<MPI_Request>& requests);
  void finish();

  /// Bytes of temporary memory that the call needs on a rank with several replicas. Local.
  [[nodiscard]] static std::int64_t scratch_bytes(const Case& what, const Job& job);

 private:
  /// Makes the call: the nonblocking one if `request` is not null.
  void begin(MPI_Request* request);
  template <class Blocking, class Nonblocking, class... Args>
  void perform(Blocking blocking, Nonblocking nonblocking, Args... args) const;
  void all_reduce();
  void reduce();
  void reduce_scatter();
  void all_gather();
  void all_gather_v();
  void gather();
  void gather_v();
  void scatter();
  void all_to_all();
  void broadcast();
  void barrier();

  [[nodiscard]] bool is_in_place() const noexcept { return what().placement == Placement::in_place; }
  [[nodiscard]] int elements(const Region& tensor) const;
  /// All inputs of this rank in one buffer, reduced or concatenated.
  [[nodiscard]] std::byte* fold_into(std::byte* target);
  [[nodiscard]] const std::byte* packed_inputs();
  void copy_to_other_outputs() const;
  /// For an all_to_all of several replicas: packs all inputs in the order of the receiving ranks, and unpacks the
  /// result.
  void pack_parts(std::byte* next) const;
  void unpack_parts(const std::byte* next) const;
  /// Copies the outputs of all replicas from one buffer.
  void unpack_outputs(const std::byte* next) const;
  [[nodiscard]] std::size_t pair_bytes(int source, int target) const;
  [[nodiscard]] int own_replica(std::size_t i) const { return job().first_replica(job().rank) + static_cast<int>(i); }
  [[nodiscard]] int own_part() const { return parts_.counts[static_cast<std::size_t>(job().rank)]; }

  MPI_Comm comm_;
  MPI_Datatype dtype_;
  MPI_Op op_;
  MPI_Request* request_ = nullptr;  // of the call that begin() makes
  Block scratch_;
  RankParts parts_;          // if parts are uneven; for all_to_all_v the sent parts
  RankParts receive_parts_;  // received parts of all_to_all_v
};

}  // namespace perf
