// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/mpi_list.hpp"

#include <cstring>

namespace perf {

MpiList::MpiList(const ListTensors& tensors, const PeerCall& call, const Job& job, ListMode mode, MPI_Comm comm)
    : ListCall(tensors, job, Values::order_free),
      comm_(comm),
      dtype_(call.mpi_dtype),
      op_(call.mpi_op),
      is_async_(tensors.what().form == Form::async) {
  const bool packs = mode == ListMode::buckets;
  if (packs) {
    buckets_ = buckets_of(tensors.what().bytes_of_tensors(), bucket_bytes);
    for (std::size_t replica = 0; replica < tensors.replicas(); ++replica) {
      packed_.emplace_back(tensors.of_replica(replica), buckets_, tensors.memory(), replica);
    }
  }
  memories_.resize(packs ? buckets_.size() : tensors.what().counts.size());
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    for (std::size_t replica = 0; replica < tensors.replicas(); ++replica) {
      memories_[i].push_back(packs ? packed_[replica].bucket(i) : tensors.of_replica(replica)[i]);
    }
  }
  requests_.resize(memories_.size(), MPI_REQUEST_NULL);
}

void MpiList::run() {
  for (std::size_t call = 0; call < memories_.size(); ++call) {
    begin(call);
    if (!is_async_) end(call);
  }
  if (!is_async_) return;
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  for (std::size_t call = 0; call < memories_.size(); ++call) end(call);
}

void MpiList::begin(std::size_t call) {
  for (const PackedTensors& packed : packed_) packed.pack(call);
  const std::vector<Region>& memory = memories_[call];
  const int count = elements(memory.front());
  for (std::size_t replica = 1; replica < memory.size(); ++replica) {
    MPI_Reduce_local(memory[replica].data(), memory.front().data(), count, dtype_, op_);
  }
  if (is_async_) {
    MPI_Iallreduce(MPI_IN_PLACE, memory.front().data(), count, dtype_, op_, comm_, &requests_[call]);
  } else {
    MPI_Allreduce(MPI_IN_PLACE, memory.front().data(), count, dtype_, op_, comm_);
  }
}

void MpiList::end(std::size_t call) const {
  const std::vector<Region>& memory = memories_[call];
  for (std::size_t replica = 1; replica < memory.size(); ++replica) {
    std::memcpy(memory[replica].data(), memory.front().data(), memory.front().size());
  }
  for (const PackedTensors& packed : packed_) packed.unpack(call);
}

int MpiList::elements(const Region& tensor) const {
  return static_cast<int>(tensor.size() / lockstep::size_of(tensors().what().dtype));
}

}  // namespace perf
