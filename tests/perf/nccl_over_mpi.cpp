// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A libnccl.so.2 for tests: ncclAllReduce by MPI, in memory that the host can access. All processes have the same
// number of communicators and call them in one group. NCCL_OVER_MPI_FAULT=bit: one bit of each result is wrong;
// =nothing: no result is written.

#include <mpi.h>
#include <nccl.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

struct Call {
  const void* source;
  void* target;
};

/// The calls since the group began.
struct Group {
  bool is_open = false;
  std::vector<Call> calls;
  std::size_t count = 0;
  MPI_Datatype dtype = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};
Group group;

MPI_Datatype mpi_dtype(ncclDataType_t dtype) {
  if (dtype == ncclFloat32) return MPI_FLOAT;
  return dtype == ncclInt32 ? MPI_INT32_T : MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ncclRedOp_t op) {
  if (op == ncclSum) return MPI_SUM;
  return op == ncclMax ? MPI_MAX : MPI_OP_NULL;
}

void run() {
  if (group.calls.empty()) return;
  const std::size_t bytes = group.count * 4;
  const auto count = static_cast<int>(group.count);
  std::vector<std::byte> sum(bytes);
  std::memcpy(sum.data(), group.calls.front().source, bytes);
  for (std::size_t i = 1; i < group.calls.size(); ++i) {
    MPI_Reduce_local(group.calls[i].source, sum.data(), count, group.dtype, group.op);
  }
  MPI_Allreduce(MPI_IN_PLACE, sum.data(), count, group.dtype, group.op, MPI_COMM_WORLD);
  const char* const fault = std::getenv("NCCL_OVER_MPI_FAULT");
  const bool writes_nothing = fault != nullptr && std::string_view(fault) == "nothing";
  if (fault != nullptr) sum.front() ^= std::byte{1};
  for (const Call& call : group.calls) {
    if (!writes_nothing) std::memcpy(call.target, sum.data(), bytes);
  }
  group.calls.clear();
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId /*id*/, int rank) {
  *comm = nullptr;
  return rank >= 0 && rank < ranks ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDestroy(ncclComm_t /*comm*/) { return ncclSuccess; }

const char* ncclGetErrorString(ncclResult_t /*result*/) { return "invalid argument"; }

ncclResult_t ncclGroupStart() {
  group.is_open = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  group.is_open = false;
  run();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* source, void* target, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  group.count = count;
  group.dtype = mpi_dtype(dtype);
  group.op = mpi_op(op);
  if (group.dtype == MPI_DATATYPE_NULL || group.op == MPI_OP_NULL) return ncclInvalidArgument;
  group.calls.push_back({source, target});
  if (!group.is_open) run();
  return ncclSuccess;
}
