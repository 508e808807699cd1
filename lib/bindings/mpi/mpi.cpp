// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/mpi/mpi.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <array>
#include <utility>

namespace lockstep::detail::mpi {

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw_error(Code::unavailable, "{} failed: {}", call,
              std::string_view(text.data(), static_cast<std::size_t>(length)));
}

bool is_initialized() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

bool is_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

bool is_active() { return is_initialized() && !is_finalized(); }

int thread_level() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  return level;
}

std::string thread_level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "single";
    case MPI_THREAD_FUNNELED: return "funneled";
    case MPI_THREAD_SERIALIZED: return "serialized";
    default: return "multiple";
  }
}

bool this_thread_may_call() {
  if (thread_level() >= MPI_THREAD_SERIALIZED) return true;
  int is_main = 0;
  check(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  return is_main != 0;
}

std::unique_lock<std::mutex> serialize() {
  static std::mutex mutex;  // one per process, like MPI; locked or not at run time, which the analysis cannot follow
  static const int level = thread_level();
  return level >= MPI_THREAD_MULTIPLE ? std::unique_lock<std::mutex>(mutex, std::defer_lock)
                                      : std::unique_lock<std::mutex>(mutex);
}

Comm Comm::duplicate_of(MPI_Comm original) {
  Comm copy;
  check(MPI_Comm_dup(original, &copy.handle_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(copy.handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

Comm Comm::split_of(MPI_Comm original, int color, int key) {
  Comm part;
  check(MPI_Comm_split(original, color, key, &part.handle_), "MPI_Comm_split");
  if (part.handle_ != MPI_COMM_NULL) {
    check(MPI_Comm_set_errhandler(part.handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  return part;
}

Comm& Comm::operator=(Comm&& other) noexcept {
  if (this != &other) {
    reset();
    handle_ = other.release();
  }
  return *this;
}

int Comm::rank() const {
  int rank = 0;
  check(MPI_Comm_rank(handle_, &rank), "MPI_Comm_rank");
  return rank;
}

int Comm::size() const {
  int size = 0;
  check(MPI_Comm_size(handle_, &size), "MPI_Comm_size");
  return size;
}

MPI_Comm Comm::release() noexcept { return std::exchange(handle_, MPI_COMM_NULL); }

void Comm::reset() noexcept {
  if (handle_ == MPI_COMM_NULL) return;
  if (is_active()) {
    MPI_Comm_free(&handle_);
  } else {
    log_warning("a communicator was destroyed after MPI_Finalize; destroy it before");
  }
  handle_ = MPI_COMM_NULL;
}

Nodes find_nodes(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  Nodes nodes;
  check(MPI_Comm_size(node, &nodes.ranks_here), "MPI_Comm_size");
  int leader = 0;  // ranks keep their order inside a node
  int size = 0;
  check(MPI_Comm_rank(comm, &leader), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  check(MPI_Bcast(&leader, 1, MPI_INT, 0, node), "MPI_Bcast");
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  nodes.leaders.resize(static_cast<std::size_t>(size));
  check(MPI_Allgather(&leader, 1, MPI_INT, nodes.leaders.data(), 1, MPI_INT, comm), "MPI_Allgather");
  nodes.count = 0;
  for (int r = 0; r < size; ++r) nodes.count += nodes.leaders[static_cast<std::size_t>(r)] == r ? 1 : 0;
  return nodes;
}

std::optional<MPI_Datatype> datatype(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16: return std::nullopt;
    case DType::f32: return MPI_FLOAT;
    case DType::f64: return MPI_DOUBLE;
    case DType::i8: return MPI_INT8_T;
    case DType::i16: return MPI_INT16_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::u8:
    case DType::boolean: return MPI_UINT8_T;
    case DType::u16: return MPI_UINT16_T;
    case DType::u32: return MPI_UINT32_T;
    case DType::u64: return MPI_UINT64_T;
  }
  return std::nullopt;
}

MPI_Op op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return MPI_SUM;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::prod: return MPI_PROD;
    case ReduceOp::band: return MPI_BAND;
    case ReduceOp::bor: return MPI_BOR;
    case ReduceOp::bxor: return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view whole(text.data(), static_cast<std::size_t>(length));
  return std::string(whole.substr(0, whole.find_first_of("\n,")));
}

}  // namespace lockstep::detail::mpi
