// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A program that fails in the way that its argument names.

#include <lockstep/lockstep.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using lockstep::ReduceOp;

void go_wrong(std::string_view fault, const lockstep::Environment& environment) {
  lockstep::Communicator comm = lockstep::world_communicator();
  comm.barrier();
  if (fault == "throw-on-one" || fault == "throw-through") {
    if (environment.rank() == 1) throw std::runtime_error("out of apples");
    comm.barrier();
  } else if (fault == "mismatch") {
    std::vector<float> values(static_cast<std::size_t>(3 + environment.rank() % 2));
    comm.all_reduce(std::span(values), ReduceOp::sum);
  } else if (fault == "absent") {
    if (environment.rank() == 1) std::this_thread::sleep_for(std::chrono::minutes(10));
    comm.barrier({.fail_after = std::chrono::seconds(2)});
  } else if (fault == "throw-in-step") {
    lockstep::MultiWorkerMirroredStrategy strategy(comm);
    strategy.run([](lockstep::ReplicaContext& replica) {
      if (replica.replica_id_in_sync_group() == 1) throw std::runtime_error("out of apples");
      return replica.all_reduce(ReduceOp::sum, 1.0f);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view fault = argc > 1 ? argv[1] : "none";
  if (fault != "throw-through") {
    lockstep::Environment environment(argc, argv);
    go_wrong(fault, environment);
    return 0;
  }
  try {
    lockstep::Environment environment(argc, argv);
    go_wrong(fault, environment);
  } catch (const std::runtime_error& error) {
    if (std::string_view(error.what()) == "out of apples") std::fprintf(stderr, "caught: %s\n", error.what());
    return 3;
  }
  return 0;
}
