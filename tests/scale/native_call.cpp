// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "scale/native_call.hpp"

#include "base/check.hpp"
#include "kernels/reduce.hpp"
#include "scale/simulated_time.hpp"

#include <mpi.h>

#include <cstdint>
#include <span>

namespace lockstep::detail {
namespace {

/// Adds, and charges as much time as `reduce` for two inputs.
void charged_sum(void* in, void* inout, int* length, MPI_Datatype*) {
  const FoldInput inputs[] = {{inout, false}, {in, false}};
  const std::uint8_t merges[] = {0, 1};
  void* const output = inout;
  reduce({.inputs = inputs, .merges = merges, .outputs = std::span(&output, 1)}, *length);
}

void call_native(ScaledCall& scaled, MPI_Op op) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  const MPI_Datatype type = MPI_FLOAT;
  const float* const in = scaled.input();
  float* const out = scaled.output();
  const int count = static_cast<int>(scaled.count());
  const int root = scaled.call().root;
  switch (scaled.call().kind) {
    case OperationKind::all_reduce: MPI_Allreduce(in, out, count, type, op, comm); break;
    case OperationKind::reduce: MPI_Reduce(in, out, count, type, op, root, comm); break;
    case OperationKind::reduce_scatter: MPI_Reduce_scatter_block(in, out, count, type, op, comm); break;
    case OperationKind::all_gather: MPI_Allgather(in, count, type, out, count, type, comm); break;
    case OperationKind::gather: MPI_Gather(in, count, type, out, count, type, root, comm); break;
    case OperationKind::scatter: MPI_Scatter(in, count, type, out, count, type, root, comm); break;
    case OperationKind::all_to_all: MPI_Alltoall(in, count, type, out, count, type, comm); break;
    case OperationKind::broadcast: MPI_Bcast(out, count, type, root, comm); break;
    default: LOCKSTEP_CHECK(false && "a kind that kind_of does not return");
  }
}

}  // namespace

double run_native(ScaledCall& scaled) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(charged_sum, 1, &op);
  double us = 0;
  for (int turn = 0; turn < 2; ++turn) {
    scaled.clear_output();
    const double begin = meet();
    call_native(scaled, op);
    us = slowest_us(begin);
  }
  MPI_Op_free(&op);
  return us;
}

}  // namespace lockstep::detail
