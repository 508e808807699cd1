// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a program without lockstep does: MPI's own collective.

#pragma once

#include "call.hpp"
#include "options.hpp"
#include "peer.hpp"

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace perf {

/// What each rank has of one memory, in elements, as MPI's calls for uneven parts take it.
struct RankParts {
  std::vector<int> counts;
  std::vector<int> begins;
};

/// Makes one of MPI's calls: the nonblocking one with MPI_Wait where --async is given. With several replicas on a rank,
/// the rank's inputs are reduced (MPI_Reduce_local) or packed before it, and the result copied to its other outputs
/// after it, as such programs do.
class MpiCall final : public Call {
 public:
  /// Local. `call` is what peer_call() made of the case.
  MpiCall(const PeerCall& call, const Job& job, const Buffers& buffers, const Options& options, MPI_Comm comm);
  void run() override;

  /// Bytes of further memory that the calls need on a rank: of several replicas together. Local.
  [[nodiscard]] static std::int64_t scratch_bytes(const Case& what, const Job& job);

 private:
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
  /// All inputs of this rank in one memory: reduced there, or one behind the other.
  [[nodiscard]] std::byte* fold_into(std::byte* target);
  [[nodiscard]] const std::byte* packed_inputs();
  void copy_to_other_outputs() const;
  /// Of an all_to_all of several replicas: all inputs in the order in which ranks get them, and the way back.
  void pack_parts(std::byte* next) const;
  void unpack_parts(const std::byte* next) const;
  [[nodiscard]] std::size_t pair_bytes(int source, int target) const;
  [[nodiscard]] int own_replica(std::size_t i) const { return job().first_replica(job().rank) + static_cast<int>(i); }
  [[nodiscard]] int own_part() const { return parts_.counts[static_cast<std::size_t>(job().rank)]; }

  MPI_Comm comm_;
  MPI_Datatype dtype_;
  MPI_Op op_;
  bool is_async_;
  Block scratch_;
  RankParts parts_;          // where they are uneven; all_to_all_v: that are sent
  RankParts receive_parts_;  // all_to_all_v
};

}  // namespace perf
