// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams that wait for a request in place of the host.

#include "support/batch.hpp"
#include "support/errors.hpp"
#include "support/gpu_ranks.hpp"
#include "support/stream_reader.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace lockstep::test {
namespace {

const GpuLayout one_and_two_replicas{{1, 2}, 2};
const TensorCase tensor{DType::f32, 10'007};

TEST(GpuRequest, lets_a_stream_see_the_outputs) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(
      fakes, one_and_two_replicas,
      [](Communicator& comm, const DeviceOf& device_of) {
        const Bytes expected =
            canonical_reduce(ReduceOp::sum, tensor.dtype, all_leaves(tensor, 0, comm.layout().replicas()));
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
          request.wait(readers.front()->stream());  // of what is complete
        }
      },
      canonical());
}

TEST(GpuRequest, of_an_operation_that_never_ends_holds_a_stream_back_and_not_the_host) {
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
        EXPECT_FALSE(detail::cuda::is_idle(reader.stream(), items.front().outputs.front().device.index));
        expect_all(error_of([&] { request.wait(); }), {"deadline_exceeded:", "the GPUs have not done their part"});
        request.wait(reader.stream());  // what failed is complete
      },
      impatient(5000));
}

TEST(GpuRequest, that_needs_the_host_to_its_end_is_complete_then) {
  const FakeGpus fakes({.devices = 4}, {.absent = "nobody has installed it"});
  on_gpu_ranks(fakes, one_and_two_replicas, [&](Communicator& comm, const DeviceOf& device_of) {
    const Bytes expected =
        canonical_reduce(ReduceOp::sum, tensor.dtype, all_leaves(tensor, 0, comm.layout().replicas()));
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
