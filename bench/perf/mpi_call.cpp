// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/mpi_call.hpp"

#include "bench/perf/memory.hpp"

#include <cstring>

namespace perf {

namespace {

std::int64_t bytes_of_local_parts(const Case& what, const Job& job) {
  std::int64_t count = 0;
  for (int i = 0; i < job.replicas_per_rank; ++i)
    count += what.part_count(job.first_replica(job.rank) + i, job.replicas());
  return count * static_cast<std::int64_t>(lockstep::size_of(what.dtype));
}

/// Sums `count(replica)` over the replicas of each rank.
template <class Count>
RankParts parts_by_rank(const Job& job, const Count& count) {
  RankParts parts;
  int begin = 0;
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::int64_t elements = 0;
    for (int i = 0; i < job.replicas_per_rank; ++i) elements += count(job.first_replica(rank) + i);
    parts.begins.push_back(begin);
    parts.counts.push_back(static_cast<int>(elements));
    begin += parts.counts.back();
  }
  return parts;
}

}  // namespace

MpiCall::MpiCall(const PeerCall& call, const Job& job, const Buffers& buffers, const Options& options, MPI_Comm comm)
    : Call(call.what, job, buffers, call.what.reduces() ? Values::order_free : Values::mixed),
      comm_(comm),
      dtype_(call.mpi_dtype),
      op_(call.mpi_op),
      scratch_(memory_kind(options.mpi_memory).make({}), scratch_bytes(call.what, job)) {
  if (!traits(call.what.collective).is_uneven) return;
  const int replicas = job.replicas();
  if (call.what.collective != Collective::all_to_all_v) {
    parts_ = parts_by_rank(job, [&](int replica) { return call.what.part_count(replica, replicas); });
    return;
  }
  const auto sum_over_own = [&](const auto& count) {
    std::int64_t elements = 0;
    for (int i = 0; i < job.replicas_per_rank; ++i) elements += count(job.first_replica(job.rank) + i);
    return elements;
  };
  parts_ = parts_by_rank(job, [&](int target) {
    return sum_over_own([&](int source) { return call.what.pair_count(source, target, replicas); });
  });
  receive_parts_ = parts_by_rank(job, [&](int source) {
    return sum_over_own([&](int target) { return call.what.pair_count(source, target, replicas); });
  });
}

std::int64_t MpiCall::scratch_bytes(const Case& what, const Job& job) {
  if (job.replicas_per_rank == 1) return 0;
  switch (what.collective) {
    case Collective::reduce: return what.bytes();
    case Collective::reduce_scatter: return what.bytes() + what.bytes() / job.ranks;  // inputs and outputs
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
    case Collective::gather_v:
    case Collective::scatter:
    case Collective::scatter_v: return bytes_of_local_parts(what, job);
    case Collective::all_to_all:
    case Collective::all_to_all_v: return 2 * what.bytes() * job.replicas_per_rank;  // inputs and outputs
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::barrier:
    case Collective::send_recv:
    case Collective::halo:
    case Collective::duplicate:
    case Collective::split:
    case Collective::first_call: return 0;
  }
  return 0;
}

void MpiCall::run() {
  begin(nullptr);
  finish();
}

void MpiCall::post(int /*step*/, std::vector<MPI_Request>& requests) {
  MPI_Request request = MPI_REQUEST_NULL;
  begin(&request);
  requests.push_back(request);
}

void MpiCall::wait_all(std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

void MpiCall::begin(MPI_Request* request) {
  request_ = request;
  switch (what().collective) {
    case Collective::all_reduce: return all_reduce();
    case Collective::reduce: return reduce();
    case Collective::reduce_scatter: return reduce_scatter();
    case Collective::all_gather: return all_gather();
    case Collective::all_gather_v: return all_gather_v();
    case Collective::gather: return gather();
    case Collective::gather_v: return gather_v();
    case Collective::scatter:
    case Collective::scatter_v: return scatter();
    case Collective::all_to_all:
    case Collective::all_to_all_v: return all_to_all();
    case Collective::broadcast: return broadcast();
    case Collective::barrier: return barrier();
    case Collective::send_recv:
    case Collective::halo:
    case Collective::duplicate:
    case Collective::split:
    case Collective::first_call: break;  // other classes make these
  }
}

void MpiCall::finish() {
  const bool has_one = outputs().size() == 1;
  switch (what().collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
    case Collective::gather_v: return copy_to_other_outputs();
    case Collective::reduce_scatter:
      if (!has_one) unpack_outputs(scratch_.data() + inputs().front().size());
      return;
    case Collective::scatter:
    case Collective::scatter_v:
      if (!has_one) unpack_outputs(scratch_.data());
      return;
    case Collective::all_to_all:
    case Collective::all_to_all_v:
      if (!has_one) unpack_parts(scratch_.data() + inputs().size() * inputs().front().size());
      return;
    case Collective::broadcast:
      if (job().is_root() && !is_in_place()) copy(outputs().front(), inputs().front());
      return copy_to_other_outputs();
    case Collective::barrier:
    case Collective::send_recv:
    case Collective::halo:
    case Collective::duplicate:
    case Collective::split:
    case Collective::first_call: break;
  }
}

template <class Blocking, class Nonblocking, class... Args>
void MpiCall::perform(Blocking blocking, Nonblocking nonblocking, Args... args) const {
  if (request_ == nullptr) {
    blocking(args...);
  } else {
    nonblocking(args..., request_);
  }
}

void MpiCall::all_reduce() {
  std::byte* const output = outputs().front().data();
  const int count = elements(outputs().front());
  const bool has_one = inputs().size() == 1;
  if (!has_one) static_cast<void>(fold_into(output));
  const void* const source = !has_one || is_in_place() ? MPI_IN_PLACE : inputs().front().data();
  perform(MPI_Allreduce, MPI_Iallreduce, source, static_cast<void*>(output), count, dtype_, op_, comm_);
}

void MpiCall::reduce() {
  // several inputs of the root are reduced in separate memory too: MPICH 4.0.2 crashes in place on roots other than 0
  const bool has_one = inputs().size() == 1;
  const bool is_root = job().is_root();
  const void* source = has_one ? inputs().front().data() : fold_into(scratch_.data());
  if (has_one && is_root && is_in_place()) source = MPI_IN_PLACE;
  void* const target = is_root ? outputs().front().data() : nullptr;
  perform(MPI_Reduce, MPI_Ireduce, source, target, elements(inputs().front()), dtype_, op_, job().root, comm_);
}

void MpiCall::reduce_scatter() {
  const bool has_one = inputs().size() == 1;
  const Region& output = outputs().front();
  const void* const source = has_one ? inputs().front().data() : fold_into(scratch_.data());
  std::byte* const target = has_one ? output.data() : scratch_.data() + inputs().front().size();
  perform(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, source, static_cast<void*>(target),
          elements(output) * job().replicas_per_rank, dtype_, op_, comm_);
}

void MpiCall::all_gather() {
  const int count = elements(inputs().front()) * job().replicas_per_rank;
  perform(MPI_Allgather, MPI_Iallgather, static_cast<const void*>(packed_inputs()), count, dtype_,
          static_cast<void*>(outputs().front().data()), count, dtype_, comm_);
}

void MpiCall::gather() {
  const int count = elements(inputs().front()) * job().replicas_per_rank;
  void* const target = job().is_root() ? outputs().front().data() : nullptr;
  perform(MPI_Gather, MPI_Igather, static_cast<const void*>(packed_inputs()), count, dtype_, target, count, dtype_,
          job().root, comm_);
}

void MpiCall::all_gather_v() {
  perform(MPI_Allgatherv, MPI_Iallgatherv, static_cast<const void*>(packed_inputs()), own_part(), dtype_,
          static_cast<void*>(outputs().front().data()), parts_.counts.data(), parts_.begins.data(), dtype_, comm_);
}

void MpiCall::gather_v() {
  void* const target = job().is_root() ? outputs().front().data() : nullptr;
  perform(MPI_Gatherv, MPI_Igatherv, static_cast<const void*>(packed_inputs()), own_part(), dtype_, target,
          parts_.counts.data(), parts_.begins.data(), dtype_, job().root, comm_);
}

void MpiCall::scatter() {
  const bool has_one = outputs().size() == 1;
  const void* const source = job().is_root() ? inputs().front().data() : nullptr;
  std::byte* const target = has_one ? outputs().front().data() : scratch_.data();
  if (traits(what().collective).is_uneven) {
    perform(MPI_Scatterv, MPI_Iscatterv, source, parts_.counts.data(), parts_.begins.data(), dtype_,
            static_cast<void*>(target), own_part(), dtype_, job().root, comm_);
  } else {
    const int count = elements(outputs().front()) * job().replicas_per_rank;
    perform(MPI_Scatter, MPI_Iscatter, source, count, dtype_, static_cast<void*>(target), count, dtype_, job().root,
            comm_);
  }
}

void MpiCall::unpack_outputs(const std::byte* next) const {
  for (const Region& output : outputs()) {
    std::memcpy(output.data(), next, output.size());
    next += output.size();
  }
}

void MpiCall::all_to_all() {
  const bool has_one = inputs().size() == 1;
  const std::byte* const source = has_one ? inputs().front().data() : scratch_.data();
  std::byte* const target = has_one ? outputs().front().data() : scratch_.data() + inputs().size() * inputs()[0].size();
  if (!has_one) pack_parts(scratch_.data());
  if (traits(what().collective).is_uneven) {
    perform(MPI_Alltoallv, MPI_Ialltoallv, static_cast<const void*>(source), parts_.counts.data(), parts_.begins.data(),
            dtype_, static_cast<void*>(target), receive_parts_.counts.data(), receive_parts_.begins.data(), dtype_,
            comm_);
  } else {
    const int count = elements(inputs().front()) * job().replicas_per_rank / job().ranks;
    perform(MPI_Alltoall, MPI_Ialltoall, static_cast<const void*>(source), count, dtype_, static_cast<void*>(target),
            count, dtype_, comm_);
  }
}

void MpiCall::pack_parts(std::byte* next) const {
  std::vector<const std::byte*> cursors;
  for (const Region& input : inputs()) cursors.push_back(input.data());
  for (int rank = 0; rank < job().ranks; ++rank) {
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      for (int j = 0; j < job().replicas_per_rank; ++j) {
        const std::size_t bytes = pair_bytes(own_replica(i), job().first_replica(rank) + j);
        std::memcpy(next, cursors[i], bytes);
        cursors[i] += bytes;
        next += bytes;
      }
    }
  }
}

void MpiCall::unpack_parts(const std::byte* next) const {
  std::vector<std::byte*> cursors;
  for (const Region& output : outputs()) cursors.push_back(output.data());
  for (int source = 0; source < job().replicas(); ++source) {
    for (std::size_t j = 0; j < cursors.size(); ++j) {
      const std::size_t bytes = pair_bytes(source, own_replica(j));
      std::memcpy(cursors[j], next, bytes);
      cursors[j] += bytes;
      next += bytes;
    }
  }
}

std::size_t MpiCall::pair_bytes(int source, int target) const {
  return static_cast<std::size_t>(what().pair_count(source, target, job().replicas())) *
         lockstep::size_of(what().dtype);
}

void MpiCall::broadcast() {
  const Region& output = outputs().front();
  std::byte* const buffer = job().is_root() ? inputs().front().data() : output.data();
  perform(MPI_Bcast, MPI_Ibcast, static_cast<void*>(buffer), elements(output), dtype_, job().root, comm_);
}

void MpiCall::barrier() { perform(MPI_Barrier, MPI_Ibarrier, comm_); }

int MpiCall::elements(const Region& tensor) const {
  return static_cast<int>(tensor.size() / lockstep::size_of(what().dtype));
}

std::byte* MpiCall::fold_into(std::byte* target) {
  const Region& first = inputs().front();
  if (target != first.data()) std::memcpy(target, first.data(), first.size());
  for (const Region& input : inputs().subspan(1)) {
    MPI_Reduce_local(input.data(), target, elements(input), dtype_, op_);
  }
  return target;
}

const std::byte* MpiCall::packed_inputs() {
  if (inputs().size() == 1) return inputs().front().data();
  std::byte* end = scratch_.data();
  for (const Region& input : inputs()) {
    std::memcpy(end, input.data(), input.size());
    end += input.size();
  }
  return scratch_.data();
}

void MpiCall::copy_to_other_outputs() const {
  for (std::size_t i = 1; i < outputs().size(); ++i) {
    std::memcpy(outputs()[i].data(), outputs().front().data(), outputs().front().size());
  }
}

}  // namespace perf
