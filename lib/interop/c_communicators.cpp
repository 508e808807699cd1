// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Environment, memory, communicators and requests of the interface for C.

#include <lockstep/device/arena.hpp>
#include <lockstep/interop/mpi.hpp>

#include "bindings/mpi/mpi.hpp"
#include "interop/c_handles.hpp"
#include "interop/c_last_error.hpp"
#include "interop/c_line.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::interop {
namespace {

CommunicatorOptions options_of(std::string_view function, const char* name, std::int64_t fail_after_ms) {
  if (fail_after_ms < 0) {
    detail::throw_error(Code::invalid_argument, "{}: fail_after_ms is {}; pass a positive number, or 0 for the default",
                        function, fail_after_ms);
  }
  CommunicatorOptions options;
  if (fail_after_ms > 0) options.fail_after = std::chrono::milliseconds(fail_after_ms);
  options.name = name;
  options.recovery_advice =
      "call lockstep_recover on every rank, then repeat the calls that not all ranks have completed";
  return options;
}

/// Calls `make`, which returns a pointer to the new object, and stores the pointer in `*target`. Stores NULL if `make`
/// throws.
template <class Handle, class Make>
int create(Handle** target, std::string_view function, std::string_view argument, const Make& make) noexcept {
  return code_of([&] {
    require(target, function, argument);
    *target = nullptr;
    *target = make();
  });
}

template <class Handle>
int destroy(Handle** handle, std::string_view function, std::string_view argument) noexcept {
  return code_of([&] {
    require(handle, function, argument);
    delete std::exchange(*handle, nullptr);
  });
}

/// A request is freed when its operation is complete or has failed.
std::unique_ptr<lockstep_request> take(lockstep_request** request) {
  return std::unique_ptr<lockstep_request>(std::exchange(*request, nullptr));
}

}  // namespace
}  // namespace lockstep::interop

using namespace lockstep::interop;  // NOLINT(google-build-using-namespace): the functions below are in no namespace

int lockstep_environment_create(lockstep_environment** environment) {
  return create(environment, "environment_create", "environment", [] { return new lockstep_environment; });
}

int lockstep_environment_free(lockstep_environment** environment) {
  return destroy(environment, "environment_free", "environment");
}

int lockstep_allocate(std::size_t bytes, void** memory) {
  return create(memory, "allocate", "memory", [&] { return lockstep::arena_memory_resource()->allocate(bytes); });
}

void lockstep_deallocate(void* memory, std::size_t bytes) {
  if (memory != nullptr) lockstep::arena_memory_resource()->deallocate(memory, bytes);
}

int lockstep_world(const char* name, std::int64_t fail_after_ms, lockstep_communicator** communicator) {
  return create(communicator, "world", "communicator", [&] {
    const auto options = options_of("world", name == nullptr ? "world" : name, fail_after_ms);
    return new lockstep_communicator{lockstep::world_communicator(options)};
  });
}

int lockstep_communicator_from_fortran(int handle, const char* name, std::int64_t fail_after_ms,
                                       lockstep_communicator** communicator) {
  return create(communicator, "communicator_from", "communicator", [&] {
    const auto options = options_of("communicator_from", name == nullptr ? "communicator" : name, fail_after_ms);
    namespace mpi = lockstep::detail::mpi;
    if (!mpi::is_initialized() || mpi::is_finalized()) {  // MPI_Comm_f2c would abort the process
      lockstep::detail::throw_error(lockstep::Code::failed_precondition,
                                    "communicator_from: MPI is not initialized, or is finalized");
    }
    const MPI_Comm comm = MPI_Comm_f2c(handle);
    if (comm == MPI_Comm{}) {
      lockstep::detail::throw_error(lockstep::Code::invalid_argument,
                                    "communicator_from: handle is {}, which is not a communicator of MPI", handle);
    }
    return new lockstep_communicator{lockstep::communicator_from(comm, options)};
  });
}

int lockstep_split(const lockstep_communicator* communicator, int color, int key, const char* name,
                   lockstep_communicator** part, const char* file, int line) {
  return create(part, "split", "part", [&]() -> lockstep_communicator* {
    const lockstep::Communicator& whole = communicator_of(communicator, "split");
    const CallerLine caller(file, line);
    auto options = options_of("split", name == nullptr ? "communicator" : name, 0);
    auto made = whole.split(color, key, options, caller.location());
    return made ? new lockstep_communicator{std::move(*made)} : nullptr;
  });
}

int lockstep_communicator_free(lockstep_communicator** communicator) {
  return destroy(communicator, "communicator_free", "communicator");
}

int lockstep_rank(const lockstep_communicator* communicator, int* rank) {
  return code_of([&] {
    require(rank, "rank", "rank");
    *rank = communicator_of(communicator, "rank").rank();
  });
}

int lockstep_size(const lockstep_communicator* communicator, int* size) {
  return code_of([&] {
    require(size, "size", "size");
    *size = communicator_of(communicator, "size").size();
  });
}

int lockstep_completed_operations(const lockstep_communicator* communicator, std::int64_t* completed) {
  return code_of([&] {
    require(completed, "completed_operations", "completed");
    *completed = communicator_of(communicator, "completed_operations").completed_operations();
  });
}

int lockstep_recover(const lockstep_communicator* communicator, std::int64_t* completed, const char* file, int line) {
  return code_of([&] {
    require(completed, "recover", "completed");
    const CallerLine caller(file, line);
    *completed = communicator_of(communicator, "recover").recover(caller.location());
  });
}

int lockstep_abort(const lockstep_communicator* communicator, const char* text, const char* file, int line) {
  return code_of([&] {
    require(text, "abort", "text");
    const CallerLine caller(file, line);
    communicator_of(communicator, "abort").abort(text, caller.location());
  });
}

int lockstep_wait(lockstep_request** request) {
  return code_of([&] {
    require(request, "wait", "request");
    if (*request != nullptr) take(request)->request.wait();
  });
}

int lockstep_test(lockstep_request** request, int* is_complete) {
  return code_of([&] {
    require(request, "test", "request");
    require(is_complete, "test", "is_complete");
    auto pending = take(request);
    *is_complete = 1;
    if (pending == nullptr || pending->request.test()) return;
    *is_complete = 0;
    *request = pending.release();
  });
}
