// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/mpi/mpi.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <array>
#include <numeric>
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
  static std::mutex mutex;  // not a Mutex: the analysis cannot follow a lock that is taken only at some thread levels
  static const int level = thread_level();
  return level >= MPI_THREAD_MULTIPLE ? std::unique_lock<std::mutex>(mutex, std::defer_lock)
                                      : std::unique_lock<std::mutex>(mutex);
}

Collectives& collectives() noexcept {
  static Collectives calls;
  return calls;
}

Comm Comm::adopt(MPI_Comm made) {
  Comm comm;
  comm.handle_ = made;
  const auto lock = serialize();
  check(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

Comm Comm::split_of(MPI_Comm original, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  {
    const auto lock = serialize();
    check(MPI_Comm_split(original, color, key, &part), "MPI_Comm_split");
  }
  return part == MPI_COMM_NULL ? Comm() : adopt(part);
}

Comm& Comm::operator=(Comm&& other) noexcept {
  if (this != &other) {
    reset();
    handle_ = other.release();
  }
  return *this;
}

int Comm::rank() const {
  const auto lock = serialize();
  int rank = 0;
  check(MPI_Comm_rank(handle_, &rank), "MPI_Comm_rank");
  return rank;
}

int Comm::size() const {
  const auto lock = serialize();
  int size = 0;
  check(MPI_Comm_size(handle_, &size), "MPI_Comm_size");
  return size;
}

MPI_Comm Comm::release() noexcept { return std::exchange(handle_, MPI_COMM_NULL); }

void Comm::reset() noexcept {
  if (handle_ == MPI_COMM_NULL) return;
  if (is_active()) {
    const auto lock = serialize();
    MPI_Comm_free(&handle_);
  } else {
    log_warning("a communicator was destroyed after MPI_Finalize; destroy it before");
  }
  handle_ = MPI_COMM_NULL;
}

Nodes find_nodes(MPI_Comm comm) {
  const auto lock = serialize();
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  Nodes nodes;
  check(MPI_Comm_size(node, &nodes.ranks_here), "MPI_Comm_size");
  int leader = 0;  // rank in `comm`; rank 0 of `node` is the lowest rank, since key 0 keeps the order of `comm`
  int size = 0;
  check(MPI_Comm_rank(comm, &leader), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  check(collectives().bcast(&leader, 1, MPI_INT, 0, node), "MPI_Bcast");
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  nodes.leaders.resize(static_cast<std::size_t>(size));
  check(collectives().allgather(&leader, 1, MPI_INT, nodes.leaders.data(), 1, MPI_INT, comm), "MPI_Allgather");
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

int largest_tag() {
  const auto lock = serialize();
  void* value = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &is_set), "MPI_Comm_get_attr");
  constexpr int least = 32767;
  return is_set != 0 ? *static_cast<int*>(value) : least;
}

std::vector<int> ranks_in(MPI_Comm comm, MPI_Comm target) {
  const auto lock = serialize();
  std::array<MPI_Group, 2> groups{};
  check(MPI_Comm_group(comm, &groups[0]), "MPI_Comm_group");
  check(MPI_Comm_group(target, &groups[1]), "MPI_Comm_group");
  int size = 0;
  check(MPI_Group_size(groups[0], &size), "MPI_Group_size");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> result(ranks.size());
  check(MPI_Group_translate_ranks(groups[0], size, ranks.data(), groups[1], result.data()),
        "MPI_Group_translate_ranks");
  for (MPI_Group& group : groups) check(MPI_Group_free(&group), "MPI_Group_free");
  return result;
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view whole(text.data(), static_cast<std::size_t>(length));
  return std::string(whole.substr(0, whole.find_first_of("\n,")));
}

}  // namespace lockstep::detail::mpi
