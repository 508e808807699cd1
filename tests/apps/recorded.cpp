// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// recorded MISTAKE [FILE]: three ranks that make a mistake which the argument names, for their flight records. The test
// shows the lines of the calls, so it looks for their comments. Only the calls that are to time out have a short
// deadline.

#include <lockstep/cluster/flight_record.hpp>
#include <lockstep/lockstep.hpp>

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using lockstep::Communicator;
using lockstep::ReduceOp;

constexpr int culprit = 1;

constexpr std::chrono::seconds deadline{3};

lockstep::CommunicatorOptions options_for(std::string_view mistake) {
  if (mistake != "sends") return {.name = "world"};
  return {.fail_after = deadline, .name = "world"};  // a send has no deadline of its own
}

void train(Communicator& comm, std::string_view mistake) {
  std::vector<float> gradient(4);
  std::vector<float> weights(8);
  const bool is_wrong = comm.rank() == culprit;
  for (int step = 0; step < 3; ++step) {
    const bool is_last = step == 2;
    if (is_last && is_wrong && mistake == "dies") ::raise(SIGKILL);
    if (is_last && is_wrong && mistake == "stops") ::raise(SIGSTOP);
    std::optional<std::chrono::milliseconds> limit;
    if (is_last && mistake == "is-late") limit = deadline;
    if (limit && is_wrong) MPI_Barrier(MPI_COMM_WORLD);  // the other ranks have failed
    if (!(is_last && is_wrong && mistake == "forgets")) {
      comm.all_reduce(std::span(gradient), ReduceOp::sum, {.fail_after = limit});  // the forgotten call
    }
    if (is_last && is_wrong && mistake == "sends") comm.send(std::span(gradient), 0);  // the lonely send
    comm.broadcast(std::span(weights), 0);                                             // the next call
  }
}

/// Waits until all ranks that live have written their records: a launcher may end the other ranks when one has ended.
void wait_for_records(const Communicator& comm, std::string_view mistake, MPI_Comm others) {
  if (mistake == "is-late" && comm.rank() != culprit) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(mistake == "dies" ? others : MPI_COMM_WORLD);
}

/// The culprit makes its call when the other ranks wait, and `file` exists.
void wait_for_file(Communicator& comm, const char* file) {
  comm.barrier();
  lockstep::Request request;
  if (comm.rank() != culprit) request = comm.barrier_async();
  std::printf("pid %d of rank %d\n", ::getpid(), comm.rank());
  std::fflush(stdout);
  while (comm.rank() == culprit && !std::filesystem::exists(file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (comm.rank() == culprit) request = comm.barrier_async();
  request.wait();
}

/// Both calls are under way before either is waited for, so that the records of most runs show them.
void swap_calls(Communicator& comm) {
  std::vector<float> first(4);
  std::vector<float> second(8);
  const bool is_swapped = comm.rank() == culprit;
  auto one = comm.all_reduce_async(std::span(is_swapped ? second : first), ReduceOp::sum);
  auto two = comm.all_reduce_async(std::span(is_swapped ? first : second), ReduceOp::sum);
  one.wait();
  two.wait();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mistake = argc > 1 ? argv[1] : "";
  lockstep::Environment environment(argc, argv);
  MPI_Comm others = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, environment.rank() == culprit ? 1 : 0, 0, &others);
  Communicator comm = lockstep::world_communicator(options_for(mistake));
  if (mistake == "waits-for-signal") {
    wait_for_file(comm, argv[2]);
    MPI_Comm_free(&others);
    return 0;
  }
  try {
    mistake == "swaps" ? swap_calls(comm) : train(comm, mistake);
    if (mistake == "requests") std::printf("%s\n", lockstep::write_flight_record().c_str());
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    wait_for_records(comm, mistake, others);
    ::_exit(0);  // a launcher ends the other ranks before they have written, if one has another exit code
  }
  MPI_Comm_free(&others);
  return 0;
}
