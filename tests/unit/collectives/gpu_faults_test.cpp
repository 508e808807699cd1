// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs and NCCL that fail: every rank gets an error in bounded time, and afterwards the communicator works or gives the
// reason why it does not.

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/gpu_ranks.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using NcclResult = detail::nccl::Result;
using CudaStatus = detail::cuda::Status;

const GpuLayout two_ranks{{1, 2}, 2};

/// One sum of a tensor of `count` elements.
void sum(Communicator& comm, const DeviceOf& device_of, std::int64_t count) {
  const std::vector<TensorCase> tensors{{DType::f32, count}};
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  batch.reduce_in_place(0);
  comm.all_reduce(batch.items(), ReduceOp::sum);
}

/// The errors of `body`, by rank; afterwards the communicators work.
std::vector<std::string> errors_of(const FakeGpus& fakes, const GpuLayout& layout,
                                   FunctionRef<void(Communicator&, const DeviceOf&)> body,
                                   const CommunicatorOptions& options = minutes_to_fail()) {
  std::vector<std::string> errors(layout.replicas.size());
  on_gpu_ranks(
      fakes, layout,
      [&](Communicator& comm, const DeviceOf& device_of) {
        errors[static_cast<std::size_t>(comm.rank())] = error_of([&] { body(comm, device_of); });
        comm.barrier(long_deadline());
        check_all_reduce(comm, ReduceOp::sum, long_deadline(Order::canonical), device_of);
        check_in_place(comm, device_of, {{DType::i64, 100}}, long_deadline());
      },
      options);
  return errors;
}

TEST(GpuMismatch, is_found_before_nccl_is_called) {
  const FakeGpus fakes({.devices = 4});
  const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    sum(comm, device_of, 10);
    comm.barrier(long_deadline());
    const int before = fakes.nccl().calls().count("all_reduce");
    const auto error = thrown_by([&] { sum(comm, device_of, comm.rank() == 0 ? 3 : 4); });
    EXPECT_EQ(fakes.nccl().calls().count("all_reduce"), before);
    if (error) throw Error(*error);
  });
  for (const std::string& error : errors)
    expect_all(error, {"mismatch:", "rank 0 calls all_reduce sum on GPUs of f32 [3] with order any", "f32 [4]"});
}

TEST(GpuMismatch, of_hosts_and_gpus_is_found_before_and_after_the_first_call) {
  const FakeGpus fakes({.devices = 4});
  for (const bool is_settled : {false, true}) {
    const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
      if (is_settled) sum(comm, device_of, 10);
      sum(comm, comm.rank() == 0 ? DeviceOf(on_host) : device_of, 3);
    });
    for (const std::string& error : errors) expect_all(error, {"mismatch:", "on GPUs"});
  }
}

TEST(GpuPlaces, cannot_change_after_the_first_call) {
  const FakeGpus fakes({.devices = 4});
  const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    sum(comm, device_of, 10);
    sum(comm, comm.rank() == 0 ? gpus_of_rank(1, 1) : device_of, 10);
  });
  expect_all(errors[0], {"invalid_argument:", "replica 0", "gpu:1", "gpu:0", "first call on GPUs"});
  expect_all(errors[1], {"unavailable:", "rank 0", "gpu:1"});
}

TEST(GpuPlaces, must_exist_on_this_machine) {
  const FakeGpus fakes({.devices = 4});
  const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    float value = 0;
    const ConstTensorView nowhere(&value, DType::f32, Shape{1}, {DeviceKind::gpu, 7});
    const std::vector<ConstTensorView> inputs(static_cast<std::size_t>(comm.local_replicas()), nowhere);
    const Item item{inputs, {}};
    if (comm.rank() == 1) comm.all_reduce(std::span(&item, 1), ReduceOp::sum);
    sum(comm, device_of, 10);
  });
  expect_all(errors[1], {"unavailable:", "all_reduce: input 0: gpu:7 is not available", "gpu:0 to gpu:3"});
  expect_all(errors[0], {"unavailable:", "rank 1"});
}

TEST(GpuPlaces, cannot_have_a_stream_that_is_captured) {
  const FakeGpus fakes({.devices = 4});
  const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    const std::vector<TensorCase> tensors{{DType::f32, 10}};
    Batch batch(tensors, comm.layout(), comm.rank(), device_of);
    batch.reduce_in_place(0);
    comm.all_reduce(batch.items(), ReduceOp::sum);
    void* const stream = stream_handle(device_of(0));
    if (comm.rank() == 1) fakes.cuda().begin_capture(stream);
    const auto error = thrown_by([&] { comm.all_reduce(batch.items(), ReduceOp::sum); });
    if (comm.rank() == 1) {
      EXPECT_TRUE(fakes.cuda().end_capture(stream)) << "a call has been captured";
    }
    if (error) throw Error(*error);
  });
  expect_all(errors[1], {"failed_precondition:", "all_reduce: a stream of gpu:2 is being captured into a CUDA graph"});
  expect_all(errors[0], {"unavailable:", "rank 1", "captured"});
}

TEST(GpuPlaces, must_contain_the_elements_of_the_views) {
  const FakeGpus fakes({.devices = 4});
  for (const bool is_on_another : {false, true}) {
    const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
      if (comm.rank() == 0) {
        sum(comm, device_of, 10);
        return;
      }
      PlacedBytes right(Bytes(40), device_of(0));
      PlacedBytes wrong(Bytes(40), is_on_another ? device_of(0) : Device{});
      const std::array<ConstTensorView, 2> inputs{
          {{right.data(), DType::f32, Shape{10}, device_of(0)}, {wrong.data(), DType::f32, Shape{10}, device_of(1)}}};
      const Item item{inputs, {}};
      const std::span items(&item, 1);
      expect_all(error_of([&] { static_cast<void>(comm.prepare_all_reduce(items, ReduceOp::sum)); }),
                 {"invalid_argument:", "input 1 (replica 2) is on gpu:3 according to its view"});
      comm.all_reduce(items, ReduceOp::sum);
    });
    expect_all(errors[1], {"invalid_argument:", "all_reduce: input 1 (replica 2) is on gpu:3 according to its view",
                           is_on_another ? "memory of gpu:2" : "memory that is not registered with CUDA"});
    expect_all(errors[0], {"unavailable:", "rank 1", "according to its view"});
  }
}

TEST(GpuPlaces, must_contain_them_in_broadcasts_and_messages_too) {
  const FakeGpus fakes({.devices = 4});
  const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    float value = 0;
    const bool is_wrong = comm.rank() == 1;
    PlacedBytes right(Bytes(sizeof value), device_of(0));
    const TensorView view{is_wrong ? static_cast<void*>(&value) : right.data(), DType::f32, Shape{1}, device_of(0)};
    const ConstTensorView same = view;
    const std::string error =
        error_of([&] { is_wrong ? comm.send(std::span(&same, 1), 0) : comm.recv(std::span(&view, 1), 1); });
    expect_all(error, {"send: the tensor is on gpu:2 according to its view"});
    const Item item = is_wrong ? Item{std::span(&same, 1), {}} : Item{{}, std::span(&view, 1)};
    comm.broadcast(std::span(&item, 1), 1);
  });
  expect_all(errors[1], {"invalid_argument:", "broadcast: input 0 is on gpu:2 according to its view"});
  expect_all(errors[0], {"unavailable:", "rank 1"});
}

/// Rank 0's warning about the path at the first call.
std::string warning_of(const FakeGpus& fakes, const GpuLayout& layout, int gpus_apart) {
  testing::internal::CaptureStderr();
  on_ranks(layout.replicas, [&](Communicator& comm) {
    check_all_reduce(comm, ReduceOp::sum, {}, gpus_of_rank(comm.rank() * gpus_apart, layout.gpus));
    check_all_reduce(comm, ReduceOp::mean, {}, gpus_of_rank(comm.rank() * gpus_apart, layout.gpus));
  });
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
  return testing::internal::GetCapturedStderr();
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(GpuPathOfRanks, is_the_host_without_nccl_with_one_warning) {
  const FakeGpus fakes({.devices = 4}, {.absent = "libnccl.so.2 was eaten"});
  const std::string text = warning_of(fakes, two_ranks, 1);
  expect_all(text, {"through host memory", "no NCCL on rank 0: libnccl.so.2 was eaten"});
  EXPECT_EQ(count_of(text, "through host memory"), 1U);
}

TEST(GpuPathOfRanks, is_by_the_proxy_if_they_share_a_gpu_with_one_warning) {
  const FakeGpus fakes({.devices = 2});
  const std::string text = warning_of(fakes, {{1, 1}, 1}, 0);
  expect_all(text, {"through host memory: ranks 0 and 1 share GPU-", "led by rank 0"});
  EXPECT_EQ(count_of(text, "through host memory"), 1U);
  EXPECT_EQ(fakes.nccl().calls().count("get_unique_id"), 0);
}

TEST(GpuPathOfRanks, is_the_host_if_nccl_does_not_start_on_one_rank) {
  {
    const FakeGpus fakes({.devices = 4});
    fakes.nccl().pretend_version(2, 22703);
    expect_all(warning_of(fakes, two_ranks, 1), {"through host memory", "cannot start NCCL on rank"});
  }
  {
    const FakeGpus fakes({.devices = 4});
    fakes.nccl().calls().fail("get_unique_id", 1, NcclResult::system_error);
    expect_all(warning_of(fakes, two_ranks, 1), {"cannot start NCCL on rank 0: ", "ncclGetUniqueId"});
  }
  for (const int nth : {1, 2, 3}) {
    const FakeGpus fakes({.devices = 4});
    fakes.nccl().calls().fail("comm_init_rank", nth, NcclResult::unhandled_cuda_error);
    expect_all(warning_of(fakes, two_ranks, 1), {"cannot start NCCL on rank", "ncclCommInitRank"});
  }
}

TEST(GpuPathOfRanks, is_reported_with_its_reason) {
  const FakeGpus fakes({.devices = 4});
  on_gpu_ranks(fakes, two_ranks, [](Communicator& comm, const DeviceOf& device_of) {
    std::vector<Device> devices;
    for (int r = 0; r < comm.local_replicas(); ++r) devices.push_back(device_of(r));
    const detail::GpuDecision path = CommunicatorAccess::gpu_path(comm, devices);
    EXPECT_EQ(path.path, detail::GpuPath::nccl);
    EXPECT_EQ(path.text, "NCCL 2.28.9 among 3 GPUs");
  });
}

TEST(GpuFaults, of_a_hung_operation_are_the_deadline_on_every_rank) {
  for (const Order order : {Order::any, Order::canonical}) {
    const FakeGpus fakes({.devices = 4});
    const auto begin = std::chrono::steady_clock::now();
    CommunicatorOptions options = short_deadline(1500);
    options.order = order;
    const auto errors = errors_of(
        fakes, two_ranks,
        [&](Communicator& comm, const DeviceOf& device_of) {
          sum(comm, device_of, 10);
          comm.barrier(long_deadline());
          if (comm.rank() == 1) fakes.nccl().never_end(1);
          comm.barrier(long_deadline());
          sum(comm, device_of, 1000);
        },
        options);
    for (const std::string& error : errors) expect_all(error, {"deadline_exceeded:", "all_reduce sum", "1.5 s"});
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              virtual_time::is_active() ? std::chrono::minutes(1) : std::chrono::minutes(4));
  }
}

TEST(GpuFaults, that_nccl_reports_are_the_error_of_every_rank) {
  const FakeGpus fakes({.devices = 4});
  const auto errors = errors_of(fakes, two_ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    sum(comm, device_of, 10);
    comm.barrier(long_deadline());
    if (comm.rank() == 0) fakes.nccl().fail_launch(2, NcclResult::remote_error);
    comm.barrier(long_deadline());
    sum(comm, device_of, 1000);
  });
  for (const std::string& error : errors) expect_all(error, {"unavailable:", "NCCL"});
  EXPECT_EQ(errors[0], errors[1]);
}

TEST(GpuFaults, end_pending_requests_and_those_behind_them) {
  const FakeGpus fakes({.devices = 4});
  errors_of(
      fakes, two_ranks,
      [&](Communicator& comm, const DeviceOf& device_of) {
        sum(comm, device_of, 10);
        comm.barrier(long_deadline());
        if (comm.rank() == 0) fakes.nccl().never_end(0);
        comm.barrier(long_deadline());
        const std::vector<TensorCase> tensors{{DType::f32, 100}};
        std::vector<Batch> batches;
        std::vector<Request> requests;
        for (int k = 0; k < 2; ++k) batches.emplace_back(tensors, comm.layout(), comm.rank(), device_of);
        for (Batch& batch : batches) {
          batch.reduce_in_place(0);
          requests.push_back(comm.all_reduce_async(batch.items(), ReduceOp::sum));
        }
        for (Request& request : requests)
          expect_all(error_of([&] { request.wait(); }), {"deadline_exceeded:", "work on the GPUs is not complete"});
      },
      short_deadline(1500));
}

TEST(GpuFaults, of_memory_name_the_gpu_and_leave_the_inputs_unchanged) {
  const FakeGpus fakes({.devices = 4});
  CommunicatorOptions options = minutes_to_fail();
  options.order = Order::canonical;
  const auto errors = errors_of(
      fakes, two_ranks,
      [&](Communicator& comm, const DeviceOf& device_of) {
        sum(comm, device_of, 10);
        const TensorCase tensor{DType::f32, 1000};
        Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
        batch.add_output(0, DType::f32, 1000, device_of(0));
        const std::vector<Item> items = batch.items();
        comm.barrier(long_deadline());
        if (comm.rank() == 0) fakes.cuda().calls().fail("malloc_from_pool_async", 1, CudaStatus::out_of_memory);
        comm.barrier(long_deadline());
        const auto error = thrown_by([&] { comm.all_reduce(items, ReduceOp::sum); });
        int replica = comm.layout().first(comm.rank());
        for (const ConstTensorView& input : items.front().inputs) EXPECT_EQ(read(input), leaf(tensor, 0, replica++));
        if (error) throw Error(*error);
      },
      options);
  for (const std::string& error : errors)
    expect_all(error, {"unavailable:", "out of memory on gpu:", "bytes requested"});
}

TEST(GpuFaults, of_a_lost_device_reach_all_ranks_and_no_other_communicator) {
  RecordProperty("leaks_threads", "of the streams of a lost GPU");
  const FakeGpus fakes({.devices = 4});
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(
      two_ranks.replicas,
      [&](Communicator& comm) {
        const DeviceOf device_of = gpus_of_rank(comm.rank(), two_ranks.gpus);
        Batch batch({{DType::f32, 1000}}, comm.layout(), comm.rank(), device_of);
        batch.reduce_in_place(0);
        const std::vector<Item> items = batch.items();
        Communicator other = comm.duplicate(comm.options());
        comm.all_reduce(items, ReduceOp::sum, long_deadline());
        comm.barrier(long_deadline());
        if (comm.rank() == 0) fakes.cuda().fail_next_work(0, CudaStatus::illegal_address);
        comm.barrier(long_deadline());
        for (int call = 0; call < 3; ++call) {
          expect_all(error_of([&] { comm.all_reduce(items, ReduceOp::sum); }),
                     {"unavailable:", "an illegal memory access was encountered"});
        }
        check_all_reduce(other, ReduceOp::sum);
      },
      minutes_to_fail());
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            virtual_time::is_active() ? std::chrono::minutes(1) : std::chrono::minutes(4));
}

/// One call that fails: the `nth` of `name` after the negotiation.
struct BadCall {
  std::string name;
  int nth;
  bool is_cuda;
};

class GpuBadCalls : public testing::TestWithParam<BadCall> {};

TEST_P(GpuBadCalls, are_errors_in_bounded_time) {
  const FakeGpus fakes({.devices = 4});
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(
      two_ranks.replicas,
      [&](Communicator& comm) {
        const DeviceOf device_of = gpus_of_rank(comm.rank(), two_ranks.gpus);
        const std::vector<TensorCase> tensors{{DType::f32, 1000}};
        Batch batch(tensors, comm.layout(), comm.rank(), device_of);
        batch.reduce_in_place(0);
        const std::vector<Item> items = batch.items();
        const Item whole = items.front();
        const Item shared{whole.inputs.first(comm.rank() == 0 ? 1 : 0), whole.outputs};
        comm.all_reduce(items, ReduceOp::sum, long_deadline());
        comm.barrier(long_deadline());
        if (comm.rank() == 0) {
          if (GetParam().is_cuda) {
            fakes.cuda().calls().fail(GetParam().name, GetParam().nth, CudaStatus::launch_failure);
          } else {
            fakes.nccl().calls().fail(GetParam().name, GetParam().nth, NcclResult::internal_error);
          }
        }
        comm.barrier(long_deadline());
        for (int k = 0; k < 3; ++k) {
          static_cast<void>(error_of([&] { comm.broadcast(std::span(&shared, 1), 0); }));
          static_cast<void>(error_of([&] { comm.all_reduce(items, ReduceOp::sum); }));
        }
      },
      short_deadline(2000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            virtual_time::is_active() ? std::chrono::minutes(1) : std::chrono::minutes(4));
}

std::vector<BadCall> bad_calls() {
  std::vector<BadCall> calls;
  for (const char* const name : {"group_start", "group_end", "all_reduce", "broadcast", "comm_get_async_error"}) {
    for (const int nth : {1, 3}) calls.push_back({name, nth, false});
  }
  for (const char* const name : {"malloc_from_pool_async", "event_create", "event_record", "event_query",
                                 "stream_wait_event", "reduce", "copy", "memcpy_async", "set_device", "free_async"}) {
    for (const int nth : {1, 4}) calls.push_back({name, nth, true});
  }
  return calls;
}

INSTANTIATE_TEST_SUITE_P(Each, GpuBadCalls, testing::ValuesIn(bad_calls()), [](const auto& instance) {
  return instance.param.name + "_" + std::to_string(instance.param.nth);
});

}  // namespace
}  // namespace lockstep::test
