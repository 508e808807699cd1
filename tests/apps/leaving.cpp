// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// leaving FAULT [CATCHER]: the last rank leaves in the way that FAULT names, after some collectives. The others go on
// and print the error of each call with its time; with CATCHER "none" they do not catch it. Deadlines are short only
// where nothing but a deadline ends a wait for the last rank.

#include <lockstep/lockstep.hpp>

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using lockstep::ReduceOp;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds short_deadline{3};

std::unique_ptr<lockstep::Communicator> kept;  // destroyed when the program ends

void sum(const lockstep::Communicator& comm, std::size_t count, const lockstep::ReduceOptions& options = {}) {
  std::vector<float> values(count, 1.0F);
  comm.all_reduce(std::span(values), ReduceOp::sum, options);
}

/// Calls collectives until all of `errors` have been thrown.
void call_and_report(const lockstep::Communicator& comm, int errors, const lockstep::ReduceOptions& options) {
  const Clock::time_point start = Clock::now();
  for (int call = 0; errors > 0; ++call) {
    try {
      call % 2 == 0 ? comm.barrier(options) : sum(comm, 100'000, options);
    } catch (const lockstep::Error& error) {
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      std::printf("rank %d, %.3f s: %s\n", comm.rank(), seconds, error.what());
      std::fflush(stdout);
      --errors;
    }
  }
}

/// The first rank of them that ends may abort the job, so they end when all have reported.
void wait_for_reports(std::string_view fault, MPI_Comm others) {
  MPI_Barrier(others);
  if (fault == "scope") MPI_Barrier(MPI_COMM_WORLD);
}

void leave(std::string_view fault, std::optional<lockstep::Communicator>& comm) {
  if (fault == "exit") std::exit(0);
  if (fault == "_exit") _exit(0);
  if (fault == "_exit3") _exit(3);
  if (fault == "kill") raise(SIGKILL);
  if (fault == "abort") std::abort();
  if (fault == "stop") raise(SIGSTOP);
  if (fault == "finalize") MPI_Finalize();
  if (fault == "throw" || fault == "throw-through") throw std::runtime_error("out of apples");
  if (fault == "scope") {
    comm.reset();
    std::this_thread::sleep_for(std::chrono::seconds(2));  // without a call of MPI
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

void run(std::string_view fault, std::string_view catcher, const lockstep::Environment& environment) {
  std::optional<lockstep::Communicator> comm = lockstep::world_communicator();
  const bool is_last = environment.rank() == environment.size() - 1;
  MPI_Comm others = MPI_COMM_NULL;
  // before the sums: a rank must not end while another one still waits for it in this call
  MPI_Comm_split(MPI_COMM_WORLD, is_last ? 1 : 0, 0, &others);
  for (int i = 0; i < 10; ++i) sum(*comm, 1000);
  if (fault == "static") kept = std::make_unique<lockstep::Communicator>(*comm);
  if (fault == "late") std::this_thread::sleep_for(std::chrono::milliseconds(400) * environment.rank());
  const bool is_orderly = fault == "none" || fault == "static" || fault == "late";
  if (!is_orderly && is_last) leave(fault, comm);
  if (!is_orderly && !is_last) {
    while (catcher == "none") comm->barrier();
    lockstep::ReduceOptions options;
    if (fault == "stop") options.fail_after = short_deadline;
    call_and_report(*comm, 2, options);
    wait_for_reports(fault, others);
  }
  MPI_Comm_free(&others);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view fault = argc > 1 ? argv[1] : "none";
  const std::string_view catcher = argc > 2 ? argv[2] : "all";
  if (fault != "throw-through") {
    lockstep::EnvironmentOptions options;
    if (fault == "finalize") options.finalize_after = short_deadline;  // the last rank cannot come any more
    lockstep::Environment environment(argc, argv, options);
    run(fault, catcher, environment);
    return 0;
  }
  try {
    lockstep::Environment environment(argc, argv);
    run(fault, catcher, environment);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 3;
  }
  return 0;
}
