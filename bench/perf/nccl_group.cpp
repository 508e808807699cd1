// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/nccl_group.hpp"

#include "bench/harness/option_values.hpp"
#include "bench/perf/cuda_stream.hpp"

#include <dlfcn.h>
#include <mpi.h>
#include <nccl.h>

#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <stdexcept>
#include <utility>

namespace perf {
namespace {

/// NCCL's functions, with the types of the header of this build.
struct NcclFunctions {
  decltype(ncclGetUniqueId)* get_unique_id;
  decltype(ncclCommInitRank)* comm_init_rank;
  decltype(ncclCommDestroy)* comm_destroy;
  decltype(ncclGroupStart)* group_start;
  decltype(ncclGroupEnd)* group_end;
  decltype(ncclAllReduce)* all_reduce;
  decltype(ncclGetErrorString)* get_error_string;
};

template <class Function>
void resolve(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) refuse("--compare \"nccl\": the NCCL library has no {}", name);
}

/// Opens NCCL; it is never closed.
NcclFunctions open_nccl() {
  const char* const named = std::getenv("LOCKSTEP_NCCL");
  const std::string file = named != nullptr && *named != '\0' ? named : "libnccl.so.2";
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse("--compare \"nccl\": {}; LOCKSTEP_NCCL names another file", dlerror());
  NcclFunctions calls{};
  resolve(library, "ncclGetUniqueId", calls.get_unique_id);
  resolve(library, "ncclCommInitRank", calls.comm_init_rank);
  resolve(library, "ncclCommDestroy", calls.comm_destroy);
  resolve(library, "ncclGroupStart", calls.group_start);
  resolve(library, "ncclGroupEnd", calls.group_end);
  resolve(library, "ncclAllReduce", calls.all_reduce);
  resolve(library, "ncclGetErrorString", calls.get_error_string);
  return calls;
}

ncclDataType_t nccl_dtype(lockstep::DType dtype) {
  using lockstep::DType;
  switch (dtype) {
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    case DType::f32: return ncclFloat32;
    case DType::f64: return ncclFloat64;
    case DType::i8: return ncclInt8;
    case DType::i32: return ncclInt32;
    case DType::i64: return ncclInt64;
    case DType::u8: return ncclUint8;
    case DType::u32: return ncclUint32;
    case DType::u64: return ncclUint64;
    case DType::i16:
    case DType::u16:
    case DType::boolean: break;
  }
  throw std::logic_error("NCCL does not support this dtype");
}

ncclRedOp_t nccl_op(lockstep::ReduceOp op) {
  switch (op) {
    case lockstep::ReduceOp::sum: return ncclSum;
    case lockstep::ReduceOp::min: return ncclMin;
    case lockstep::ReduceOp::max: return ncclMax;
    case lockstep::ReduceOp::prod: return ncclProd;
    default: throw std::logic_error("NCCL does not support this reduction");
  }
}

class OpenedGroup final : public NcclGroup {
 public:
  explicit OpenedGroup(const Job& job) : call_(open_nccl()) {
    ncclUniqueId id{};
    if (job.rank == 0) check(call_.get_unique_id(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(call_.group_start(), "ncclGroupStart");
    for (const lockstep::Device device : job.devices) {
      const int replica = job.first_replica(job.rank) + static_cast<int>(members_.size());
      Member& member = members_.emplace_back(std::make_unique<CudaStream>(device.index));
      check(call_.comm_init_rank(&member.comm, job.replicas(), id, replica), "ncclCommInitRank");
    }
    check(call_.group_end(), "ncclGroupEnd");
  }
  ~OpenedGroup() override {
    for (const Member& member : members_) call_.comm_destroy(member.comm);
  }

  void all_reduce(std::span<const Region> inputs, std::span<const Region> outputs, std::int64_t count,
                  lockstep::DType dtype, lockstep::ReduceOp op) override {
    check(call_.group_start(), "ncclGroupStart");
    for (std::size_t i = 0; i < members_.size(); ++i) {
      members_[i].stream->make_current();
      check(call_.all_reduce(inputs[i].data(), outputs[i].data(), static_cast<std::size_t>(count), nccl_dtype(dtype),
                             nccl_op(op), members_[i].comm, static_cast<cudaStream_t>(members_[i].stream->handle())),
            "ncclAllReduce");
    }
    check(call_.group_end(), "ncclGroupEnd");
    for (const Member& member : members_) member.stream->wait();
  }

 private:
  struct Member {
    explicit Member(std::unique_ptr<CudaStream> stream_) : stream(std::move(stream_)) {}
    std::unique_ptr<CudaStream> stream;
    ncclComm_t comm = nullptr;
  };

  void check(ncclResult_t result, const char* call) const {
    if (result != ncclSuccess) throw std::runtime_error(fmt::format("{}: {}", call, call_.get_error_string(result)));
  }

  NcclFunctions call_;
  std::deque<Member> members_;  // addresses stay: NCCL writes each communicator at the end of the group
};

}  // namespace

void require_nccl() { static_cast<void>(open_nccl()); }

std::unique_ptr<NcclGroup> make_nccl_group(const Job& job) { return std::make_unique<OpenedGroup>(job); }

}  // namespace perf
