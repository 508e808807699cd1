// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams that wait for a request in place of the host.

#include <lockstep/device/tensor.hpp>

#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "support/batch.hpp"
#include "support/errors.hpp"
#include "support/gpu_ranks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace lockstep::test {
namespace {

const GpuLayout one_and_two_replicas{{1, 2}, 2};
const TensorCase tensor{DType::f32, 10'007};

/// A user's stream, on which outputs are read.
class Reader {
 public:
  explicit Reader(Device device) : device_(device), stream_(device.index) {}

  [[nodiscard]] void* stream() const { return stream_.get(); }
  /// Puts a copy of `view`, which is on the GPU, on the stream.
  void read(const ConstTensorView& view) {
    copy_ = Tensor(DType::u8, Shape{static_cast<std::int64_t>(view.byte_count())}, pinned_memory_resource());
    detail::cuda::Api& api = detail::cuda::Backend::of_this_process().api();
    const detail::cuda::CurrentDevice current(device_.index);
    detail::cuda::check(api, api.memcpy_async(copy_.data(), view.data, view.byte_count(), stream_.get()), "memcpy");
  }
  [[nodiscard]] Bytes bytes() const {
    detail::cuda::wait_until([&] { return detail::cuda::is_idle(stream_.get(), device_.index); }, "reader", device_);
    Bytes bytes(copy_.byte_count());
    std::memcpy(bytes.data(), copy_.data(), bytes.size());
    return bytes;
  }

 private:
  Device device_;
  Tensor copy_;
  detail::cuda::OwnedStream stream_;
};

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
          std::vector<std::unique_ptr<Reader>> readers;
          Request request = comm.all_reduce_async(items, ReduceOp::sum);
          for (const TensorView& output : items.front().outputs) {
            readers.push_back(std::make_unique<Reader>(output.device));
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
        const Reader reader(items.front().outputs.front().device);
        request.wait(reader.stream());
        EXPECT_FALSE(request.test());
        EXPECT_FALSE(detail::cuda::is_idle(reader.stream(), items.front().outputs.front().device.index));
        expect_all(error_of([&] { request.wait(); }), {"deadline_exceeded:", "the GPUs have not done their part"});
        request.wait(reader.stream());  // what failed is complete
      },
      impatient(1500));
}

TEST(GpuRequest, refuses_what_is_no_stream_and_goes_on) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(fakes, one_and_two_replicas, [&](Communicator& comm, const DeviceOf& device_of) {
    Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
    batch.reduce_in_place(0);
    const std::vector<Item> items = batch.items();
    Request request = comm.all_reduce_async(items, ReduceOp::sum);
    int no_stream = 0;
    const std::string error = error_of([&] { request.wait(&no_stream); });
    if (error != "none") expect_all(error, {"unavailable:", "cudaStreamWaitEvent"});  // none: it was complete
    request.wait();
    comm.barrier();
  });
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
