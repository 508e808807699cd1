// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a program without lockstep does: MPI's own collective.

#pragma once

#include "call.hpp"
#include "options.hpp"
#include "peer.hpp"

#include <mpi.h>

namespace perf {

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
  void gather();
  void broadcast();
  void barrier();

  [[nodiscard]] bool is_in_place() const noexcept { return what().placement == Placement::in_place; }
  [[nodiscard]] int elements(std::span<const std::byte> bytes) const;
  /// All inputs of this rank in one memory: reduced there, or one behind the other.
  [[nodiscard]] std::byte* fold_into(std::byte* target);
  [[nodiscard]] const std::byte* packed_inputs();
  void copy_to_other_outputs() const;

  MPI_Comm comm_;
  MPI_Datatype dtype_;
  MPI_Op op_;
  bool is_async_;
  Block scratch_;
};

}  // namespace perf
