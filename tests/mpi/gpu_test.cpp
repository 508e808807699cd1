// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives on GPUs between processes, each with fake GPUs of its own.

#include <lockstep/interop/mpi.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/gpu_ranks.hpp"
#include "support/pair_cases.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// GPUs of this rank alone.
FakeCudaOptions own_gpus(int gpus) {
  return {.devices = gpus, .machine = static_cast<std::uint64_t>(world_rank()) + 1};
}

CommunicatorOptions uneven(int gpus, std::optional<Order> order = std::nullopt) {
  CommunicatorOptions options;
  options.local_replicas = gpus + world_rank() % 2;
  options.order = order;
  return options;
}

TEST(MpiGpus, have_the_bits_of_the_hosts_in_canonical_order) {
  for (const int gpus : {1, 2, 3}) {
    const FakeGpus fakes(own_gpus(gpus));
    {
      Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(gpus, Order::canonical));
      check_every_collective(comm, gpus_of_rank(0, gpus));
      check_every_message(comm, {DeviceKind::gpu, gpus - 1});
    }
    EXPECT_EQ(fakes.nccl().mismatches(), std::vector<std::string>{});
    EXPECT_EQ(fakes.nccl().communicators(), 0U);
  }
}

TEST(MpiGpus, use_the_canonical_order_for_operations_that_nccl_lacks) {
  const FakeGpus fakes(own_gpus(2));
  Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(2));
  const DeviceOf device_of = gpus_of_rank(0, 2);
  check_all_reduce(comm, ReduceOp::max, {}, device_of);
  check_all_reduce(comm, ReduceOp::bxor, {}, device_of);
  // only integers have the same bits in every order
  const std::vector<TensorCase> tensors{{DType::i64, 300'000}, {DType::u8, 77}};
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  for (std::size_t i = 0; i < tensors.size(); ++i) batch.reduce_in_place(i);
  comm.all_reduce(batch.items(), ReduceOp::sum);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Bytes expected = reduced(ReduceOp::sum, tensors[i], i, comm.layout().replicas());
    for (const Bytes& result : batch.results(i)) EXPECT_EQ(result, expected) << "item " << i;
  }
  EXPECT_EQ(fakes.nccl().calls().count("all_reduce"), 4);  // two tensors, two GPUs
}

TEST(MpiGpus, that_ranks_share_are_led_by_one) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const FakeGpus fakes({.devices = 1});  // the same on all ranks
  Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(1));
  const std::vector<Device> devices(static_cast<std::size_t>(comm.local_replicas()), {DeviceKind::gpu, 0});
  const detail::GpuDecision path = CommunicatorAccess::gpu_path(comm, devices);
  EXPECT_EQ(path.path, detail::GpuPath::one_device) << path.text;
  EXPECT_EQ(path.sharing.empty(), size == 1) << path.sharing;
  check_every_collective(comm, gpus_of_rank(0, 1));
  EXPECT_EQ(fakes.nccl().calls().count("comm_init_rank"), 0);
}

TEST(MpiGpus, that_ranks_share_in_part_have_the_bits_of_the_hosts) {
  // every rank has a GPU of its own; all ranks share the last GPU, and rank 0 leads it
  FakeCudaOptions options = own_gpus(2);
  options.uuids = {{static_cast<std::uint8_t>(world_rank() + 1)}, {0xff}};
  const FakeGpus fakes(options);
  {
    Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(2, Order::canonical));
    check_every_collective(comm, gpus_of_rank(0, 2));
  }
  EXPECT_EQ(fakes.nccl().calls().count("comm_init_rank"), world_rank() == 0 ? 2 : 1);
  EXPECT_EQ(fakes.nccl().mismatches(), std::vector<std::string>{});
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
}

TEST(MpiGpus, that_a_launcher_shows_to_only_one_rank_belong_to_it) {
  const FakeGpus fakes(own_gpus(2));
  const Communicator comm = communicator_from(MPI_COMM_WORLD);
  const Device first{DeviceKind::gpu, 0};
  const Device second{DeviceKind::gpu, 1};
  EXPECT_EQ(gpus_of_replicas(comm, 1), std::vector{first});
  EXPECT_EQ(gpus_of_replicas(comm, 2), (std::vector{first, second}));
  MultiWorkerMirroredStrategy strategy(comm, {.default_devices = DefaultDevices::gpus});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2 * comm.size());
}

TEST(MpiGpus, that_all_ranks_see_are_divided_among_them) {
  const FakeGpus fakes({.devices = 4});
  const Communicator comm = communicator_from(MPI_COMM_WORLD);
  const int first = comm.rank() * 4 / comm.size();
  EXPECT_EQ(gpus_of_replicas(comm, 1), (std::vector{Device{DeviceKind::gpu, first}}));
}

TEST(MpiGpus, fall_back_together_if_nccl_is_missing_or_does_not_start_on_one_rank) {
  for (const bool is_absent : {true, false}) {
    const bool is_last = world_rank() + 1 == communicator_from(MPI_COMM_WORLD).size();
    const FakeGpus fakes(own_gpus(2), {.absent = is_absent && is_last ? "it was forgotten here" : ""});
    if (!is_absent && is_last) fakes.nccl().calls().fail("comm_init_rank", 2, detail::nccl::Result::system_error);
    Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(2));
    std::vector<Device> devices;
    for (int r = 0; r < comm.local_replicas(); ++r) devices.push_back(gpus_of_rank(0, 2)(r));
    const detail::GpuDecision path = CommunicatorAccess::gpu_path(comm, devices);
    EXPECT_EQ(path.path, detail::GpuPath::host);
    expect_all(path.text,
               {is_absent ? "it was forgotten here" : "ncclCommInitRank", "rank " + std::to_string(comm.size() - 1)});
    check_all_reduce(comm, ReduceOp::sum, {}, gpus_of_rank(0, 2));
  }
}

TEST(MpiGpus, with_different_versions_of_nccl_use_host_memory_with_one_warning_of_rank_0) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "one rank has one version";
  const bool is_last = world.rank() + 1 == world.size();
  const FakeGpus fakes(own_gpus(2), {.version = is_last ? 22703 : 22809});
  const std::string last = "rank " + std::to_string(world.size() - 1);
  Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(2));
  testing::internal::CaptureStderr();
  for (int call = 0; call < 3; ++call) check_all_reduce(comm, ReduceOp::sum, {}, gpus_of_rank(0, 2));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("through host memory") != std::string::npos, comm.rank() == 0) << said;
  EXPECT_EQ(said.find("through host memory"), said.rfind("through host memory")) << said;
  if (comm.rank() == 0) expect_all(said, {"rank 0 has NCCL 2.28.9, but " + last + " has 2.27.3"});
  // if NCCL is required, the same text is the error of every rank
  MultiWorkerOptions options;
  options.devices = std::vector<Device>{{DeviceKind::gpu, 0}, {DeviceKind::gpu, 1}};
  options.communication_options.implementation = "NCCL";
  expect_all(error_of([&] { const MultiWorkerMirroredStrategy strategy(world, options); }),
             {"unavailable:", "implementation NCCL", "rank 0 has NCCL 2.28.9, but " + last + " has 2.27.3"});
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
}

TEST(MpiGpus, of_a_strategy_are_divided_among_the_ranks_that_see_them) {
  for (const bool sees_own : {false, true}) {
    Communicator world = communicator_from(MPI_COMM_WORLD);
    const FakeGpus fakes(sees_own ? own_gpus(1) : FakeCudaOptions{.devices = world.size() + 1});
    MultiWorkerOptions options;
    options.default_devices = DefaultDevices::gpus;
    MultiWorkerMirroredStrategy strategy(world, options);
    // with one more GPU than ranks, the last rank has two
    std::vector<Device> expected{{DeviceKind::gpu, sees_own ? 0 : world.rank()}};
    if (!sees_own && world.rank() + 1 == world.size()) expected.push_back({DeviceKind::gpu, world.size()});
    const auto devices = strategy.extended().worker_devices();
    EXPECT_EQ(std::vector<Device>(devices.begin(), devices.end()), expected);
    const auto sums = strategy.run([](ReplicaContext& replica) {
      const Tensor one = Tensor::from(std::vector{1.0F}).to(replica.devices().front());
      return replica.all_reduce("SUM", one).to(Device{});
    });
    EXPECT_EQ(sums.component(0).elements<float>()[0], static_cast<float>(strategy.num_replicas_in_sync()));
    EXPECT_EQ(fakes.nccl().calls().count("comm_init_rank"),
              strategy.num_replicas_in_sync() == 1 ? 0 : static_cast<int>(expected.size()));
  }
}

TEST(MpiGpus, that_hang_are_an_error_on_every_rank_and_then_all_works_again) {
  const FakeGpus fakes(own_gpus(2));
  Communicator comm = communicator_from(MPI_COMM_WORLD, uneven(2));
  const DeviceOf device_of = gpus_of_rank(0, 2);
  check_all_reduce(comm, ReduceOp::sum, {.order = Order::canonical, .name = {}}, device_of);
  if (comm.rank() == 0) fakes.nccl().never_end(0);
  const ReduceOptions with_a_deadline{.order = Order::canonical, .name = {}, .fail_after = std::chrono::seconds(3)};
  expect_all(error_of([&] { check_all_reduce(comm, ReduceOp::sum, with_a_deadline, device_of); }),
             {"deadline_exceeded:", "all_reduce"});
  check_all_reduce(comm, ReduceOp::sum, {.order = Order::canonical, .name = {}}, device_of);
}

}  // namespace
}  // namespace lockstep::test
