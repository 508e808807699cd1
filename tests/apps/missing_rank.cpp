// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// missing-rank never|dies WHAT FILE: the last rank does not make the WHAT that the others make: environment, own
// (communicator_from without an Environment), world, strategy, duplicate or split. The others print the error that they
// get; then rank 0 writes FILE, which ends the last rank. Only the call that is to time out has a short deadline.

#include <lockstep/interop/mpi.hpp>
#include <lockstep/lockstep.hpp>

#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace {

[[noreturn]] void be_missing(const std::string& how, const char* file) {
  if (how == "dies") static_cast<void>(std::raise(SIGKILL));
  for (int i = 0; i < 6000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::_Exit(0);
}

void shorten_deadline() { ::setenv("LOCKSTEP_TIMEOUT", "1,3", 1); }

void make(const std::string& what, const std::optional<lockstep::Communicator>& parent) {
  if (what == "strategy") {
    static_cast<void>(lockstep::MultiWorkerMirroredStrategy());
  } else if (what == "world") {
    static_cast<void>(lockstep::world_communicator());
  } else if (what == "own") {
    static_cast<void>(lockstep::communicator_from(MPI_COMM_WORLD));
  } else if (what == "duplicate") {
    static_cast<void>(parent->duplicate({}));
  } else {
    static_cast<void>(parent->split(0, 0, {}));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argv[1];
  const std::string what = argv[2];
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool is_missing = rank == size - 1;
  std::optional<lockstep::Environment> environment;
  std::optional<lockstep::Communicator> parent;
  try {
    if (what == "environment" && is_missing) be_missing(how, argv[3]);
    if (what == "environment") shorten_deadline();
    if (what != "own") environment.emplace();  // without one, communicator_from does not know the missing rank
    MPI_Barrier(MPI_COMM_WORLD);
    if (what == "split" && how == "never") shorten_deadline();  // it is that of the parent
    if (what == "duplicate" || what == "split") parent = lockstep::world_communicator();
    if (is_missing) be_missing(how, argv[3]);
    if (how == "never") shorten_deadline();  // the end of a process is noticed long before
    make(what, parent);
    std::printf("rank %d: no error\n", rank);
  } catch (const lockstep::Error& error) {
    std::printf("rank %d: %s\n", rank, error.what());
  }
  std::fflush(stdout);
  if (rank == 0) std::ofstream(argv[3]) << "done";
  std::_Exit(3);  // after the loss of a rank there is no orderly end
}
