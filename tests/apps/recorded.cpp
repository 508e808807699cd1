// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Three ranks that make a mistake which the argument names, for their flight records. The test shows the lines of the
// calls, so it looks for their comments.

#include <lockstep/cluster/flight_record.hpp>
#include <lockstep/lockstep.hpp>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using lockstep::Communicator;
using lockstep::ReduceOp;

constexpr int culprit = 1;

void sleep(int seconds) { std::this_thread::sleep_for(std::chrono::seconds(seconds)); }

void train(Communicator& comm, std::string_view mistake) {
  std::vector<float> gradient(4);
  std::vector<float> weights(8);
  const bool is_wrong = comm.rank() == culprit;
  for (int step = 0; step < 3; ++step) {
    const bool is_last = step == 2;
    if (is_last && is_wrong && mistake == "dies") ::raise(SIGKILL);
    if (is_last && is_wrong && mistake == "stops") ::raise(SIGSTOP);
    if (is_last && is_wrong && mistake == "is-late") sleep(6);
    if (!(is_last && is_wrong && mistake == "forgets")) {
      comm.all_reduce(std::span(gradient), ReduceOp::sum);  // the forgotten call
    }
    if (is_last && is_wrong && mistake == "sends") comm.send(std::span(gradient), 0);  // the lonely send
    comm.broadcast(std::span(weights), 0);                                             // the next call
  }
}

/// Both calls are under way before either is waited for, so that the records show them.
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
  Communicator comm = lockstep::world_communicator({.name = "world"});
  if (mistake == "waits-for-signal") {
    comm.barrier();
    std::printf("pid %d of rank %d\n", ::getpid(), comm.rank());
    std::fflush(stdout);
    if (comm.rank() == culprit) sleep(8);
    comm.barrier();
    return 0;
  }
  try {
    mistake == "swaps" ? swap_calls(comm) : train(comm, mistake);
    if (mistake == "requests") std::printf("%s\n", lockstep::write_flight_record().c_str());
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    sleep(mistake == "is-late" ? 6 : 1);  // until all ranks have written
    ::_exit(0);  // a launcher ends the other ranks before they have written, if one has another exit code
  }
  return 0;
}
