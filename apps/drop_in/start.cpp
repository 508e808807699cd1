// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The beginning and the end of liblockstep_drop_in.so: the preloaded library opens it in MPI_Init, and MPI_Finalize
// ends it.

#include "drop_in/communicators.hpp"
#include "drop_in/service.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/base/exit_code.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/interop/mpi.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

namespace lockstep::drop_in {
namespace {

std::unique_ptr<Environment> environment;

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

/// A program may handle the error of a missing rank, and still call MPI_Finalize, which waits for all ranks.
void limit_finalize(std::chrono::milliseconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    std::fputs("lockstep: MPI_Finalize waits for a rank that is missing; aborting the job\n", stderr);
    PMPI_Abort(MPI_COMM_WORLD, exit_code::unavailable);
  }).detach();
}

void at_end() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (Report::is_on()) {
    Report::print();
  } else if (rank == 0) {
    print_summary();
  }
  if (const auto limit = finalize_limit()) limit_finalize(*limit);
}

/// Called after the communicators have ended.
void end_environment() { environment.reset(); }

}  // namespace
}  // namespace lockstep::drop_in

extern "C" LOCKSTEP_API const char* lockstep_drop_in_check(int (*comm_size)(MPI_Comm, int*)) {
  if (comm_size != &PMPI_Comm_size) return "lockstep was built for another MPI library than that of the program";
  return nullptr;
}

extern "C" LOCKSTEP_API void lockstep_drop_in_start(const lockstep_calls* calls, lockstep_drop_in_mode mode,
                                                    lockstep_calls* taken) {
  using namespace lockstep;           // NOLINT(google-build-using-namespace): of one function
  using namespace lockstep::drop_in;  // NOLINT(google-build-using-namespace): of one function
  real = *calls;
  try {
    if (mode == LOCKSTEP_MPI_ON) {
      set_mpi_collectives({real.Allreduce, real.Bcast, real.Allgather});
      environment = std::make_unique<Environment>();
    } else {
      Report::turn_on();
    }
    watch_finalize(at_end, end_environment);
    set_taken(*taken);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("lockstep: {}\n", error.what()).c_str(), stderr);
    PMPI_Abort(MPI_COMM_WORLD, exit_code::usage);
  }
}
