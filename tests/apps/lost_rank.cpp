// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks with fake GPUs. Rank 1 dies inside a call of NCCL; the others print the error that they get.

#include "support/fake_gpus.hpp"

#include <lockstep/lockstep.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

template <class Call>
void print_error_of(const char* name, int rank, const Call& call) {
  try {
    call();
    std::printf("rank %d, %s: no error\n", rank, name);
  } catch (const lockstep::Error& error) {
    std::printf("rank %d, %s: %s\n", rank, name, error.what());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const lockstep::Environment environment(argc, argv);
  const int rank = environment.rank();
  // each rank has a GPU of its own
  const lockstep::test::FakeGpus gpus({.devices = 1, .machine = static_cast<std::uint64_t>(rank) + 1});
  lockstep::Communicator comm = lockstep::world_communicator();
  lockstep::Tensor values = lockstep::Tensor::from(std::vector<float>(1000, 1.0F)).to(lockstep::parse_device("gpu:0"));
  const lockstep::TensorView output = values.view();
  const lockstep::ConstTensorView input = output;
  const lockstep::Item item{std::span(&input, 1), std::span(&output, 1)};
  const auto sum = [&](const lockstep::ReduceOptions& options) {
    comm.all_reduce(std::span(&item, 1), lockstep::ReduceOp::sum, options);
  };
  sum({});
  comm.barrier();
  if (rank == 1) gpus.nccl().exit_inside(rank, 7);
  const lockstep::ReduceOptions short_deadline{.fail_after = std::chrono::seconds(5)};
  print_error_of("all_reduce", rank, [&] { sum(short_deadline); });
  print_error_of("barrier", rank, [&] { comm.barrier(short_deadline); });
  std::_Exit(3);  // after the loss of a rank there is no orderly end
}
