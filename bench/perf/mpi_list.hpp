// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The all-reduce of a list by MPI, which has no call for lists: one call for each tensor, or for each bucket.

#pragma once

#include "bench/perf/list_call.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/peer.hpp"

#include <mpi.h>

#include <memory>
#include <vector>

namespace perf {

/// In the form async, all calls are posted (MPI_Iallreduce) before the first wait. With several replicas per rank,
/// their inputs are reduced locally before each call, and the result is copied to the other replicas after it.
class MpiList final : public ListCall {
 public:
  /// `call` comes from peer_call(); `mode` is not one_plan.
  MpiList(const ListTensors& tensors, const PeerCall& call, const Job& job, ListMode mode, MPI_Comm comm);
  void run() override;

 private:
  void begin(std::size_t call);
  void end(std::size_t call) const;
  [[nodiscard]] int elements(const Region& tensor) const;

  MPI_Comm comm_;
  MPI_Datatype dtype_;
  MPI_Op op_;
  bool is_async_;
  std::vector<Bucket> buckets_;
  std::vector<PackedTensors> packed_;          // by local replica; empty without buckets
  std::vector<std::vector<Region>> memories_;  // by call, by local replica
  std::vector<MPI_Request> requests_;
};

}  // namespace perf
