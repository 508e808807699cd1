// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/peer.hpp"

#include <fmt/format.h>

namespace perf {
namespace {

using lockstep::DType;
using lockstep::ReduceOp;

MPI_Datatype mpi_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32: return MPI_FLOAT;
    case DType::f64: return MPI_DOUBLE;
    case DType::i8: return MPI_INT8_T;
    case DType::i16: return MPI_INT16_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::u8: return MPI_UINT8_T;
    case DType::u16: return MPI_UINT16_T;
    case DType::u32: return MPI_UINT32_T;
    case DType::u64: return MPI_UINT64_T;
    case DType::boolean: return MPI_C_BOOL;
  }
  return MPI_DATATYPE_NULL;
}

/// Elements that are only moved need a type of their size.
MPI_Datatype mpi_dtype_to_move(DType dtype) {
  const bool is_narrow_float = dtype == DType::f16 || dtype == DType::bf16;
  return is_narrow_float ? MPI_UINT16_T : mpi_dtype_of(dtype);
}

MPI_Op mpi_op_of(DType dtype, ReduceOp op) {
  const bool is_logical = dtype == DType::boolean;  // MPI has only logical operations for this type
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return MPI_SUM;
    case ReduceOp::min: return is_logical ? MPI_LAND : MPI_MIN;
    case ReduceOp::max: return is_logical ? MPI_LOR : MPI_MAX;
    case ReduceOp::prod: return MPI_PROD;
    case ReduceOp::band: return is_logical ? MPI_LAND : MPI_BAND;
    case ReduceOp::bor: return is_logical ? MPI_LOR : MPI_BOR;
    case ReduceOp::bxor: return is_logical ? MPI_LXOR : MPI_BXOR;
  }
  return MPI_OP_NULL;
}

int number_of(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::single: return MPI_THREAD_SINGLE;
    case ThreadLevel::funneled: return MPI_THREAD_FUNNELED;
    case ThreadLevel::serialized: return MPI_THREAD_SERIALIZED;
    case ThreadLevel::multiple: break;
  }
  return MPI_THREAD_MULTIPLE;
}

}  // namespace

MpiAtLevel::MpiAtLevel(int& argc, char**& argv, std::optional<ThreadLevel> level)
    : has_initialized_(level.has_value()) {
  int granted = MPI_THREAD_SINGLE;
  if (level) MPI_Init_thread(&argc, &argv, number_of(*level), &granted);
}

MpiAtLevel::~MpiAtLevel() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (has_initialized_ && is_finalized == 0) MPI_Finalize();
}

int OwnComm::rank() const {
  int rank = 0;
  MPI_Comm_rank(comm_, &rank);
  return rank;
}

int OwnComm::size() const {
  int size = 1;
  MPI_Comm_size(comm_, &size);
  return size;
}

std::string PeerCall::name() const {
  if (!has_sizes(what.collective)) return {};
  if (!what.reduces()) return std::string(lockstep::to_string(what.dtype));
  return fmt::format("{} {}", lockstep::to_string(what.dtype), lockstep::to_string(what.op));
}

PeerCall peer_call(const Case& what) {
  PeerCall call{.what = what};
  if (!what.reduces()) {
    call.mpi_dtype = mpi_dtype_to_move(what.dtype);
    return call;
  }
  const bool is_narrow_float = what.dtype == DType::f16 || what.dtype == DType::bf16;
  if (is_narrow_float) call.what.dtype = DType::f32;
  if (what.op == ReduceOp::mean) call.what.op = ReduceOp::sum;
  call.mpi_dtype = mpi_dtype_of(what.dtype);
  call.mpi_op = mpi_op_of(what.dtype, what.op);
  call.is_same = !is_narrow_float && what.op != ReduceOp::mean;
  return call;
}

PeerCall nccl_peer_call(const Case& what) {
  PeerCall call{.what = what};
  if (what.op == ReduceOp::mean) call.what.op = ReduceOp::sum;
  call.is_same = what.op != ReduceOp::mean;
  return call;
}

}  // namespace perf
