// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams, instead of the host, that wait for a request.

#include "support/batch.hpp"
#include "support/errors.hpp"
#include "support/gpu_ranks.hpp"
#include "support/stream_reader.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::test {
namespace {

const GpuLayout one_and_two_replicas{{1, 2}, 2};
const TensorCase tensor{DType::f32, 10'007};

TEST(GpuRequest, makes_a_stream_wait_for_the_outputs) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(
      fakes, one_and_two_replicas,
      [](Communicator& comm, const DeviceOf& device_of) {
        const Bytes expected = reduced(ReduceOp::sum, tensor, 0, comm.layout().replicas());
        for (int round = 0; round < 5; ++round) {
          Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
          batch.reduce_in_place(0);
          const std::vector<Item> items = batch.items();
          std::vector<std::unique_ptr<StreamReader>> readers;
          Request request = comm.all_reduce_async(items, ReduceOp::sum);
          for (const TensorView& output : items.front().outputs) {
            readers.push_back(std::make_unique<StreamReader>(output.device));
            request.wait(readers.back()->stream());
            readers.back()->read(output);
          }
          for (const auto& reader : readers) EXPECT_EQ(reader->bytes(), expected);
          request.wait();
          request.wait(readers.front()->stream());  // of a complete operation
        }
      },
      canonical());
}

TEST(GpuRequest, of_a_hung_operation_blocks_a_stream_but_not_the_host) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(
      fakes, one_and_two_replicas,
      [&](Communicator& comm, const DeviceOf& device_of) {
        Batch first({tensor}, comm.layout(), comm.rank(), device_of);
        first.reduce_in_place(0);
        comm.all_reduce(first.items(), ReduceOp::sum);
        comm.barrier();
        if (comm.rank() == 0) fakes.nccl().never_end(0);
        comm.barrier();
        Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
        batch.reduce_in_place(0);
        const std::vector<Item> items = batch.items();
        Request request = comm.all_reduce_async(items, ReduceOp::sum);
        int no_stream = 0;
        expect_all(error_of([&] { request.wait(&no_stream); }), {"unavailable:", "cudaStreamWaitEvent"});
        const StreamReader reader(items.front().outputs.front().device);
        request.wait(reader.stream());
        EXPECT_FALSE(request.test());
        EXPECT_FALSE(request.wait_for(std::chrono::milliseconds(20)));
        EXPECT_FALSE(detail::cuda::is_idle(reader.stream(), items.front().outputs.front().device.index));
        expect_all(error_of([&] { request.wait(); }), {"deadline_exceeded:", "work on the GPUs is not complete"});
        request.wait(reader.stream());  // what failed is complete
      },
      short_deadline(5000));
}

TEST(GpuRequest, keeps_tensors_alive_that_are_destroyed_while_it_is_pending) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(
      fakes, one_and_two_replicas,
      [](Communicator& comm, const DeviceOf& device_of) {
        const Bytes expected = reduced(ReduceOp::sum, tensor, 0, comm.layout().replicas());
        for (int round = 0; round < 5; ++round) {
          std::optional<Batch> batch(std::in_place, std::vector{tensor}, comm.layout(), comm.rank(), device_of);
          PlacedBytes result(Bytes(expected.size()), device_of(0));
          const std::vector<Item> items = batch->items();
          const TensorView output{result.data(), tensor.dtype, Shape{tensor.count}, device_of(0)};
          const Item item{items.front().inputs, std::span(&output, 1)};
          Request request = comm.all_reduce_async(std::span(&item, 1), ReduceOp::sum);
          batch.reset();  // says so in the log, and waits
          request.wait();
          EXPECT_EQ(read(output), expected);
        }
      },
      canonical());
}

TEST(GpuRequest, that_is_dropped_completes_even_without_its_communicator) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(
      fakes, one_and_two_replicas,
      [](Communicator& comm, const DeviceOf& device_of) {
        const Bytes expected = reduced(ReduceOp::sum, tensor, 0, comm.layout().replicas());
        Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
        batch.reduce_in_place(0);
        {
          std::optional<Communicator> own(comm.duplicate(comm.options()));
          const Request request = own->all_reduce_async(batch.items(), ReduceOp::sum);
          own.reset();
        }
        for (const Bytes& result : batch.results(0)) EXPECT_EQ(result, expected);
      },
      canonical());
}

TEST(GpuRequest, that_hangs_does_not_block_its_destructor_or_its_communicators) {
  const FakeGpus fakes({.devices = 4});
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(
      one_and_two_replicas.replicas,
      [&](Communicator& comm) {
        const DeviceOf device_of = gpus_of_rank(comm.rank(), one_and_two_replicas.gpus);
        Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
        batch.reduce_in_place(0);
        {
          CommunicatorOptions options = short_deadline(1500);
          options.local_replicas = comm.local_replicas();
          std::optional<Communicator> own(comm.duplicate(options));
          own->all_reduce(batch.items(), ReduceOp::sum);
          comm.barrier();
          if (comm.rank() == 0) fakes.nccl().never_end(0);
          comm.barrier();
          const Request request = own->all_reduce_async(batch.items(), ReduceOp::sum);
          own.reset();
        }
        comm.all_reduce(batch.items(), ReduceOp::sum);
      },
      short_deadline(20'000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            virtual_time::is_active() ? std::chrono::minutes(1) : std::chrono::minutes(4));
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
}

TEST(GpuRequest, that_needs_the_host_is_complete_when_the_stream_may_go_on) {
  const FakeGpus fakes({.devices = 4}, {.absent = "it is not installed"});
  on_gpu_ranks(fakes, one_and_two_replicas, [&](Communicator& comm, const DeviceOf& device_of) {
    const Bytes expected = reduced(ReduceOp::sum, tensor, 0, comm.layout().replicas());
    for (const DeviceOf& place : {device_of, DeviceOf(on_host)}) {
      Batch batch({tensor}, comm.layout(), comm.rank(), place);
      batch.reduce_in_place(0);
      Request request = comm.all_reduce_async(batch.items(), ReduceOp::sum, {.order = Order::canonical});
      request.wait(detail::cuda::stream_of(device_of(0)));
      EXPECT_TRUE(request.test());
      for (const Bytes& result : batch.results(0)) EXPECT_EQ(result, expected);
    }
  });
}

}  // namespace
}  // namespace lockstep::test
