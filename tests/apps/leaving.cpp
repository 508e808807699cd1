// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// leaving FAULT [CATCHER]: the last rank leaves in the way that FAULT names, after some collectives. The others go on
// and print the error of each call with its time; with CATCHER "none" they do not catch it.

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

std::unique_ptr<lockstep::Communicator> kept;  // destroyed when the program ends

void sum(const lockstep::Communicator& comm, std::size_t count) {
  std::vector<float> values(count, 1.0F);
  comm.all_reduce(std::span(values), ReduceOp::sum);
}

/// Calls collectives until all of `errors` have been thrown.
void call_and_report(const lockstep::Communicator& comm, int errors) {
  const Clock::time_point start = Clock::now();
  for (int call = 0; errors > 0; ++call) {
    try {
      call % 2 == 0 ? comm.barrier() : sum(comm, 100'000);
    } catch (const lockstep::Error& error) {
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      std::printf("rank %d, %.3f s: %s\n", comm.rank(), seconds, error.what());
      std::fflush(stdout);
      --errors;
    }
  }
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
    std::this_thread::sleep_for(std::chrono::seconds(3));
  }
}

void run(std::string_view fault, std::string_view catcher, const lockstep::Environment& environment) {
  std::optional<lockstep::Communicator> comm = lockstep::world_communicator();
  for (int i = 0; i < 10; ++i) sum(*comm, 1000);
  if (fault == "none") return;
  if (fault == "static") {
    kept = std::make_unique<lockstep::Communicator>(*comm);
    return;
  }
  if (fault == "late") {  // all leave in order, at different times
    std::this_thread::sleep_for(std::chrono::milliseconds(400) * environment.rank());
    return;
  }
  if (environment.rank() == environment.size() - 1) {
    leave(fault, comm);
  } else if (catcher == "none") {
    for (;;) comm->barrier();
  } else {
    call_and_report(*comm, 2);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view fault = argc > 1 ? argv[1] : "none";
  const std::string_view catcher = argc > 2 ? argv[2] : "all";
  if (fault != "throw-through") {
    lockstep::Environment environment(argc, argv);
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
