// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI's all-reduce of a list, which it has none for: a call for each tensor, or for each bucket.

#pragma once

#include "list_call.hpp"
#include "options.hpp"
#include "peer.hpp"

#include <mpi.h>

#include <memory>
#include <vector>

namespace perf {

/// With --async all calls are posted (MPI_Iallreduce) before the first is waited for. With several replicas on a rank
/// they are reduced there before each call, and the result is copied to the others after it.
class MpiList final : public ListCall {
 public:
  /// `call` is what peer_call() made of the list; `mode` is not one_plan.
  MpiList(const ListTensors& tensors, const PeerCall& call, const Job& job, ListMode mode, const Options& options,
          MPI_Comm comm);
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
  std::vector<PackedTensors> packed_;          // of each local replica; none without buckets
  std::vector<std::vector<Region>> memories_;  // of each call, of each local replica
  std::vector<MPI_Request> requests_;
};

}  // namespace perf
