// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The real table of NCCL calls. NCCL is opened at run time, so that the same build of lockstep runs on machines with
// and without NCCL. The functions have the types of the NCCL header with which lockstep is built.

#include "bindings/nccl/nccl.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"

#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <deque>

namespace lockstep::detail::nccl {
namespace {

static_assert(static_cast<Result>(ncclSuccess) == Result::success);
static_assert(static_cast<Result>(ncclUnhandledCudaError) == Result::unhandled_cuda_error);
static_assert(static_cast<Result>(ncclSystemError) == Result::system_error);
static_assert(static_cast<Result>(ncclInternalError) == Result::internal_error);
static_assert(static_cast<Result>(ncclInvalidArgument) == Result::invalid_argument);
static_assert(static_cast<Result>(ncclInvalidUsage) == Result::invalid_usage);
static_assert(static_cast<Result>(ncclRemoteError) == Result::remote_error);
static_assert(static_cast<Result>(ncclInProgress) == Result::in_progress);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

// All functions that lockstep uses, by their names without the prefix "nccl".
#define LOCKSTEP_NCCL_FUNCTIONS(X) \
  X(AllGather)                     \
  X(AllReduce)                     \
  X(Broadcast)                     \
  X(CommAbort)                     \
  X(CommDestroy)                   \
  X(CommFinalize)                  \
  X(CommGetAsyncError)             \
  X(CommInitRankConfig)            \
  X(GetErrorString)                \
  X(GetLastError)                  \
  X(GetUniqueId)                   \
  X(GetVersion)                    \
  X(GroupEnd)                      \
  X(GroupStart)                    \
  X(Recv)                          \
  X(Reduce)                        \
  X(ReduceScatter)                 \
  X(Send)

struct Functions {
#define LOCKSTEP_MEMBER(name) decltype(&nccl##name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a name
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

template <class Function>
Function* function_of(void* handle, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(handle, name));
}

/// Finds all functions in `handle`. Returns the name of the first missing function; empty if no function is missing.
std::string resolve(void* handle, Functions& functions) {
#define LOCKSTEP_RESOLVE(name)                                              \
  functions.name = function_of<decltype(nccl##name)>(handle, "nccl" #name); \
  if (functions.name == nullptr) return "nccl" #name;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_RESOLVE)
#undef LOCKSTEP_RESOLVE
  return {};
}
#undef LOCKSTEP_NCCL_FUNCTIONS

Result to_result(ncclResult_t result) { return static_cast<Result>(result); }
ncclComm_t native_comm(Comm comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t native_stream(Stream stream) { return static_cast<cudaStream_t>(stream); }

ncclRedOp_t native_op(RedOp op) {
  switch (op) {
    case RedOp::sum: return ncclSum;
    case RedOp::prod: return ncclProd;
    case RedOp::max: return ncclMax;
    case RedOp::min: return ncclMin;
  }
  return ncclNumOps;
}

/// NCCL's type for `dtype`, which must be reducible (see is_reducible).
ncclDataType_t native_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    case DType::f32: return ncclFloat32;
    case DType::f64: return ncclFloat64;
    case DType::i8: return ncclInt8;
    case DType::i32: return ncclInt32;
    case DType::i64: return ncclInt64;
    case DType::boolean:
    case DType::u8: return ncclUint8;
    case DType::u32: return ncclUint32;
    case DType::u64: return ncclUint64;
    case DType::i16:
    case DType::u16: break;
  }
  return ncclNumTypes;
}

class Opened final : public Api {
 public:
  explicit Opened(const Functions& functions) : call_(functions) {}

  Result get_version(int& version) override { return to_result(call_.GetVersion(&version)); }
  Result get_unique_id(UniqueId& id) override {
    ncclUniqueId made;
    const ncclResult_t result = call_.GetUniqueId(&made);
    if (result == ncclSuccess) std::memcpy(id.bytes.data(), made.internal, sizeof made);
    return to_result(result);
  }
  Result comm_init_rank(Comm& comm, int ranks, const UniqueId& id, int rank) override {
    ncclUniqueId native_id;
    std::memcpy(native_id.internal, id.bytes.data(), sizeof native_id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t& place = new_place();
    const ncclResult_t result = call_.CommInitRankConfig(&place, ranks, native_id, rank, &config);
    comm = place;
    return to_result(result);
  }
  Result comm_finalize(Comm comm) override { return to_result(call_.CommFinalize(native_comm(comm))); }
  Result comm_destroy(Comm comm) override { return to_result(call_.CommDestroy(native_comm(comm))); }
  Result comm_abort(Comm comm) override { return to_result(call_.CommAbort(native_comm(comm))); }
  Result comm_get_async_error(Comm comm, Result& error) override {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t result = call_.CommGetAsyncError(native_comm(comm), &found);
    error = to_result(found);
    return to_result(result);
  }
  std::string error_string(Result result) const override {
    return call_.GetErrorString(static_cast<ncclResult_t>(result));
  }
  std::string last_error(Comm comm) const override {
    const char* const text = call_.GetLastError(native_comm(comm));
    return text != nullptr ? text : "";
  }

  Result group_start() override { return to_result(call_.GroupStart()); }
  Result group_end() override { return to_result(call_.GroupEnd()); }

  Result all_reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op, Comm comm,
                    Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(call_.AllReduce(source, target, count, native_type(dtype), native_op(op), native_comm(comm),
                                     native_stream(stream)));
  }
  Result reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op, int root, Comm comm,
                Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(call_.Reduce(source, target, count, native_type(dtype), native_op(op), root, native_comm(comm),
                                  native_stream(stream)));
  }
  Result broadcast(const void* source, void* target, std::size_t count, DType dtype, int root, Comm comm,
                   Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(
        call_.Broadcast(source, target, count, native_type(dtype), root, native_comm(comm), native_stream(stream)));
  }
  Result reduce_scatter(const void* source, void* target, std::size_t count, DType dtype, RedOp op, Comm comm,
                        Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(call_.ReduceScatter(source, target, count, native_type(dtype), native_op(op), native_comm(comm),
                                         native_stream(stream)));
  }
  Result all_gather(const void* source, void* target, std::size_t count, DType dtype, Comm comm,
                    Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(
        call_.AllGather(source, target, count, native_type(dtype), native_comm(comm), native_stream(stream)));
  }
  Result send(const void* source, std::size_t count, DType dtype, int peer, Comm comm, Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(call_.Send(source, count, native_type(dtype), peer, native_comm(comm), native_stream(stream)));
  }
  Result recv(void* target, std::size_t count, DType dtype, int peer, Comm comm, Stream stream) override {
    if (!is_reducible(dtype)) return Result::invalid_argument;
    return to_result(call_.Recv(target, count, native_type(dtype), peer, native_comm(comm), native_stream(stream)));
  }

 private:
  /// A new variable for a communicator. The variable stays valid for ever, because NCCL writes the communicator to it
  /// twice: at once, and again, from a thread of NCCL, when the communicator is ready.
  ncclComm_t& new_place() {
    const MutexLock lock(mutex_);
    return places_.emplace_back(nullptr);
  }

  Functions call_;
  Mutex mutex_;
  std::deque<ncclComm_t> places_ LOCKSTEP_GUARDED_BY(mutex_);
};

/// Finds NCCL's functions in `handle`. `file` is used as the name of the library until the path of the library is
/// known.
Library look_into(void* handle, const std::string& file) {
  Library found{.path = file};
  const auto get_version = function_of<decltype(ncclGetVersion)>(handle, "ncclGetVersion");
  if (get_version == nullptr) {
    found.why = fmt::format("{} has no ncclGetVersion", file);
    return found;
  }
  if (Dl_info info{}; ::dladdr(reinterpret_cast<void*>(get_version), &info) != 0) found.path = info.dli_fname;
  if (get_version(&found.version) != ncclSuccess || found.version < least_version) {
    found.why = fmt::format("{} is NCCL {}; lockstep needs {} or newer", found.path, version_text(found.version),
                            version_text(least_version));
    return found;
  }
  Functions functions;
  if (const std::string missing = resolve(handle, functions); !missing.empty()) {
    found.why = fmt::format("{} has no {}", found.path, missing);
    return found;
  }
  found.api = std::make_shared<Opened>(functions);
  return found;
}

}  // namespace

Library open_library(const std::string& path) {
  if (path.empty() && ::dlsym(RTLD_DEFAULT, "ncclGetVersion") != nullptr) {
    return look_into(RTLD_DEFAULT, "the NCCL that is loaded in this process");
  }
  const std::string file = path.empty() ? "libnccl.so.2" : path;
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {.path = file, .why = fmt::format("cannot open NCCL: {}", ::dlerror())};
  return look_into(handle, file);
}

}  // namespace lockstep::detail::nccl
