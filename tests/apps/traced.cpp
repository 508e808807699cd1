// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program for its trace and its metrics. One rank is late, if the first argument names it; the second
// argument says how the program ends.

#include <lockstep/cluster/report_value.hpp>
#include <lockstep/cluster/trace.hpp>
#include <lockstep/lockstep.hpp>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using lockstep::Communicator;
using lockstep::ReduceOp;

constexpr int steps = 10;

void step(Communicator& comm, bool is_late) {
  const lockstep::TraceRange whole("training step");
  std::vector<float> gradient(1000);
  std::vector<float> weights(8);
  {
    const lockstep::TraceRange inner("forward");
    if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  comm.all_reduce(std::span(gradient), ReduceOp::sum, {.name = "gradient"});  // the late call
  comm.broadcast(std::span(weights), 0);
  auto request = comm.all_reduce_async(std::span(gradient), ReduceOp::sum);
  request.wait();
}

void exchange(Communicator& comm) {
  if (comm.size() == 1) return;
  std::vector<double> data(4);
  if (comm.rank() == 0) comm.send(std::span(data), 1);
  if (comm.rank() == 1) comm.recv(std::span(data), 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int late_rank = argc > 1 ? std::atoi(argv[1]) : -1;
  const std::string_view end = argc > 2 ? argv[2] : "";
  lockstep::Environment environment(argc, argv);
  Communicator comm = lockstep::world_communicator({.name = "world"});
  lockstep::MultiWorkerMirroredStrategy strategy;
  for (int k = 0; k < steps; ++k) {
    step(comm, comm.rank() == late_rank);
    lockstep::report_value("loss", 1.0 / (k + 1));
    lockstep::report_value("not \"finite\"", std::nan(""));
  }
  strategy.run([] {});
  if (comm.size() > 1) exchange(comm);
  if (end == "pauses") std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  if (end == "dies" && comm.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::fflush(stdout);
    ::_exit(7);
  }
  if (end == "throws" && comm.rank() == 0) throw std::runtime_error("the end");
  comm.barrier();
  return 0;
}
