// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "mpi_call.hpp"

#include "memory.hpp"

#include <cstring>

namespace perf {

MpiCall::MpiCall(const PeerCall& call, const Job& job, const Buffers& buffers, const Options& options, MPI_Comm comm)
    : Call(call.what, job, buffers, call.what.reduces() ? Values::order_free : Values::mixed),
      comm_(comm),
      dtype_(call.mpi_dtype),
      op_(call.mpi_op),
      is_async_(options.async),
      scratch_(memory_kind(options.mpi_memory).make(), scratch_bytes(call.what, job)) {}

std::int64_t MpiCall::scratch_bytes(const Case& what, const Job& job) {
  if (job.replicas_per_rank == 1) return 0;
  switch (what.collective) {
    case Collective::reduce: return what.bytes();
    case Collective::reduce_scatter: return what.bytes() + what.bytes() / job.ranks;  // inputs and outputs
    case Collective::all_gather:
    case Collective::gather: return what.bytes() / job.ranks;
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::barrier: return 0;
  }
  return 0;
}

void MpiCall::run() {
  switch (what().collective) {
    case Collective::all_reduce: return all_reduce();
    case Collective::reduce: return reduce();
    case Collective::reduce_scatter: return reduce_scatter();
    case Collective::all_gather: return all_gather();
    case Collective::gather: return gather();
    case Collective::broadcast: return broadcast();
    case Collective::barrier: return barrier();
  }
}

template <class Blocking, class Nonblocking, class... Args>
void MpiCall::perform(Blocking blocking, Nonblocking nonblocking, Args... args) const {
  if (!is_async_) {
    blocking(args...);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  nonblocking(args..., &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void MpiCall::all_reduce() {
  std::byte* const output = outputs().front().data();
  const int count = elements(outputs().front());
  const bool has_one = inputs().size() == 1;
  if (!has_one) static_cast<void>(fold_into(output));
  const void* const source = !has_one || is_in_place() ? MPI_IN_PLACE : inputs().front().data();
  perform(MPI_Allreduce, MPI_Iallreduce, source, static_cast<void*>(output), count, dtype_, op_, comm_);
  copy_to_other_outputs();
}

void MpiCall::reduce() {
  // several inputs of the root too are folded elsewhere: MPICH 4.0.2 crashes in place on roots other than 0
  const bool has_one = inputs().size() == 1;
  const bool is_root = job().is_root();
  const void* source = has_one ? inputs().front().data() : fold_into(scratch_.data());
  if (has_one && is_root && is_in_place()) source = MPI_IN_PLACE;
  void* const target = is_root ? outputs().front().data() : nullptr;
  perform(MPI_Reduce, MPI_Ireduce, source, target, elements(inputs().front()), dtype_, op_, job().root, comm_);
  copy_to_other_outputs();
}

void MpiCall::reduce_scatter() {
  const bool has_one = inputs().size() == 1;
  const std::span<std::byte> output = outputs().front();
  const void* const source = has_one ? inputs().front().data() : fold_into(scratch_.data());
  std::byte* const target = has_one ? output.data() : scratch_.data() + inputs().front().size();
  perform(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, source, static_cast<void*>(target),
          elements(output) * job().replicas_per_rank, dtype_, op_, comm_);
  if (has_one) return;
  for (std::size_t i = 0; i < outputs().size(); ++i) {
    std::memcpy(outputs()[i].data(), target + i * output.size(), output.size());
  }
}

void MpiCall::all_gather() {
  const int count = elements(inputs().front()) * job().replicas_per_rank;
  perform(MPI_Allgather, MPI_Iallgather, static_cast<const void*>(packed_inputs()), count, dtype_,
          static_cast<void*>(outputs().front().data()), count, dtype_, comm_);
  copy_to_other_outputs();
}

void MpiCall::gather() {
  const int count = elements(inputs().front()) * job().replicas_per_rank;
  void* const target = job().is_root() ? outputs().front().data() : nullptr;
  perform(MPI_Gather, MPI_Igather, static_cast<const void*>(packed_inputs()), count, dtype_, target, count, dtype_,
          job().root, comm_);
  copy_to_other_outputs();
}

void MpiCall::broadcast() {
  const std::span<std::byte> output = outputs().front();
  std::byte* const buffer = job().is_root() ? inputs().front().data() : output.data();
  perform(MPI_Bcast, MPI_Ibcast, static_cast<void*>(buffer), elements(output), dtype_, job().root, comm_);
  if (buffer != output.data()) std::memcpy(output.data(), buffer, output.size());
  copy_to_other_outputs();
}

void MpiCall::barrier() { perform(MPI_Barrier, MPI_Ibarrier, comm_); }

int MpiCall::elements(std::span<const std::byte> bytes) const {
  return static_cast<int>(bytes.size() / lockstep::size_of(what().dtype));
}

std::byte* MpiCall::fold_into(std::byte* target) {
  const std::span<std::byte> first = inputs().front();
  if (target != first.data()) std::memcpy(target, first.data(), first.size());
  for (const std::span<std::byte> input : inputs().subspan(1)) {
    MPI_Reduce_local(input.data(), target, elements(input), dtype_, op_);
  }
  return target;
}

const std::byte* MpiCall::packed_inputs() {
  if (inputs().size() == 1) return inputs().front().data();
  std::byte* end = scratch_.data();
  for (const std::span<std::byte> input : inputs()) {
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
