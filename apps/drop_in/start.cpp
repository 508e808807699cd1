// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The beginning and the end of liblockstep_drop_in.so: the preloaded library opens it in MPI_Init, and MPI_Finalize
// ends it.

#include "drop_in/communicators.hpp"
#include "drop_in/service.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/interop/mpi.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep::drop_in {
namespace {

Environment* environment = nullptr;  // ended by MPI_Finalize, not by static destruction

/// One line: what has been taken over on this rank, and what MPI has served.
void print_summary() {
  std::string taken;
  std::string handed_on;
  std::int64_t bytes = 0;
  const auto append = [](std::string& text, std::int64_t count, Call call) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name_of(call));
  };
  for (int i = 0; i < static_cast<int>(Call::count); ++i) {
    const auto call = static_cast<Call>(i);
    append(taken, count_of(call).taken, call);
    append(handed_on, count_of(call).handed_on, call);
    bytes += count_of(call).bytes;
  }
  const std::string text = fmt::format("lockstep: rank 0: taken over: {} ({:.3g} MiB, communicators: {}); by MPI: {}\n",
                                       taken.empty() ? "none" : taken, static_cast<double>(bytes) / (1 << 20),
                                       groups_made(), handed_on.empty() ? "none" : handed_on);
  std::fputs(text.c_str(), stderr);
}

/// A program may handle the error of a missing rank, and still call MPI_Finalize, which waits for all ranks. This
/// aborts the job if MPI_Finalize takes too long.
class FinalizeLimit {
 public:
  FinalizeLimit() : thread_([this] { wait(); }) {}
  FinalizeLimit(const FinalizeLimit&) = delete;
  FinalizeLimit& operator=(const FinalizeLimit&) = delete;
  ~FinalizeLimit() {
    {
      const std::lock_guard lock(mutex_);
      has_returned_ = true;
    }
    returned_.notify_one();
    thread_.join();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    if (returned_.wait_for(lock, std::chrono::seconds(10), [this] { return has_returned_; })) return;
    std::fputs("lockstep: MPI_Finalize waits for a rank that is missing; aborting the job\n", stderr);
    let_launcher_read();
    PMPI_Abort(MPI_COMM_WORLD, exit_code::unavailable);
  }

  std::mutex mutex_;
  std::condition_variable returned_;
  bool has_returned_ = false;
  std::thread thread_;  // last, because it uses the members above
};

std::unique_ptr<FinalizeLimit> finalize_limit;

std::shared_ptr<MemoryResource>& arena() {
  static auto* const arena =
      new std::shared_ptr(arena_memory_resource());  // blocks may be freed until the process ends
  return *arena;
}

/// If liblockstep_malloc.so is preloaded, it takes large blocks from the arena from now on, except those of lockstep
/// itself, which may free them while it holds the locks that the arena needs.
void share_memory_of_program() {
  void* const found = dlsym(RTLD_DEFAULT, "lockstep_malloc_use");
  if (found == nullptr) return;
  static_cast<void>(arena());
  if (const ArenaStatus status = arena_status(); !status.is_available) {
    std::fputs(
        fmt::format("lockstep: liblockstep_malloc.so has no effect, because this process has no shared memory: {}\n",
                    status.text)
            .c_str(),
        stderr);
    return;
  }
  static constexpr lockstep_arena calls{
      .allocate = [](std::size_t bytes) -> void* {
        if (is_inside) return nullptr;
        try {
          void* const block = arena()->allocate(bytes);
          if (is_in_arena(block, bytes)) return block;
          arena()->deallocate(block, bytes);  // of the heap: the arena is full
        } catch (const std::bad_alloc&) {}
        return nullptr;
      },
      .deallocate = [](void* block, std::size_t bytes) { arena()->deallocate(block, bytes); },
      .contains = [](const void* address) { return is_in_arena(address, 1) ? 1 : 0; },
  };
  reinterpret_cast<lockstep_malloc_use_function*>(found)(&calls);
}

void before_finalize() {
  if (misses_rank()) finalize_limit = std::make_unique<FinalizeLimit>();
}

void after_finalize() { finalize_limit.reset(); }

void at_end() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (Report::is_on()) {
    Report::print();
  } else if (rank == 0) {
    print_summary();
  }
}

/// Called after the communicators have ended.
void end_environment() { delete std::exchange(environment, nullptr); }

}  // namespace
}  // namespace lockstep::drop_in

extern "C" LOCKSTEP_API const char* lockstep_drop_in_check() {
  // this library needs an MPI library by its file name; if the program has another one, both are loaded now
  int libraries = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* count) {
        const std::string_view path = info->dlpi_name;
        const std::string_view file = path.substr(path.rfind('/') + 1);
        if (file.starts_with("libmpi.so.") || file.starts_with("libmpich.so.")) ++*static_cast<int*>(count);
        return 0;
      },
      &libraries);
  return libraries > 1 ? "lockstep was built for another MPI library than that of the program" : nullptr;
}

extern "C" LOCKSTEP_API void lockstep_drop_in_start(const lockstep_calls* calls, lockstep_drop_in_mode mode,
                                                    lockstep_drop_in* made) {
  using namespace lockstep;           // NOLINT(google-build-using-namespace): of one function
  using namespace lockstep::drop_in;  // NOLINT(google-build-using-namespace): of one function
  real = *calls;
  try {
    if (mode == LOCKSTEP_MPI_ON) {
      set_mpi_collectives({real.Allreduce, real.Bcast, real.Allgather});
      environment = new Environment(EnvironmentOptions{.delays_finalize = false});
      const Inside inside;
      static_cast<void>(group_of(MPI_COMM_WORLD));
      share_memory_of_program();
    } else {
      Report::turn_on();
    }
    watch_finalize(at_end, end_environment);
    set_taken(made->calls);
    made->before_finalize = before_finalize;
    made->after_finalize = after_finalize;
  } catch (const std::exception& error) {
    std::fputs(fmt::format("lockstep: {}\n", error.what()).c_str(), stderr);
    let_launcher_read();
    PMPI_Abort(MPI_COMM_WORLD, exit_code::usage);
  }
}
