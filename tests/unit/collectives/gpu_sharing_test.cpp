// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that share GPUs: one leads each and is the proxy of the others, through host memory. The same bits, and the
// same errors on every rank.

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/late_ranks.hpp"
#include "support/quick.hpp"
#include "support/shared_gpus.hpp"
#include "support/stream_reader.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using SharedNcclResult = detail::nccl::Result;
using SharedCudaStatus = detail::cuda::Status;

class GpuSharing : public testing::TestWithParam<SharedGpus> {};

TEST_P(GpuSharing, has_the_bits_of_the_hosts_in_canonical_order_with_only_the_leaders_in_nccl) {
  const FakeGpus fakes(cuda_of(GetParam()));
  on_sharing_ranks(
      fakes, GetParam(), [](Communicator& comm, const DeviceOf& device_of) { check_every_collective(comm, device_of); },
      canonical());
  const int gpus = count_gpus(GetParam());
  EXPECT_EQ(fakes.nccl().calls().count("comm_init_rank"), gpus > 1 ? gpus : 0);
}

TEST_P(GpuSharing, leaves_the_order_to_nccl_between_the_leaders) {
  const FakeGpus fakes(cuda_of(GetParam()), {.launch_polls = 1});
  // only integers have the same bits in every order
  const std::vector<TensorCase> tensors{{DType::i64, 200'000}, {DType::u8, 77}, {DType::i32, 0}};
  on_sharing_ranks(fakes, GetParam(),
                   [&](Communicator& comm, const DeviceOf& device_of) { check_in_place(comm, device_of, tensors); });
  EXPECT_EQ(fakes.nccl().calls().count("all_reduce") > 0, count_gpus(GetParam()) > 1);
}

// 2 of 2, 2 of 3 and 3 of 4 ranks share one; then ranks that lead one GPU and have a proxy on another, two that share
// two, and roots with a proxy for their first or last replica.
INSTANTIATE_TEST_SUITE_P(
    Layouts, GpuSharing,
    testing::ValuesIn(some_of<SharedGpus>({SharedGpus{{0}, {0}}, SharedGpus{{0, 0}, {0}}, SharedGpus{{0}, {0}, {1}},
                                           SharedGpus{{0}, {1, 1}, {1}}, SharedGpus{{0}, {0, 0}, {0}, {1}},
                                           SharedGpus{{0, 1}, {1, 0}}, SharedGpus{{0}, {0, 1}, {1}},
                                           SharedGpus{{0}, {1, 0}, {1, 0, 2}}, SharedGpus{{1, 0}, {0}, {2, 1, 1, 0}}})),
    [](const auto& instance) {
      std::string name;
      for (const auto& gpus : instance.param) {
        for (const int gpu : gpus) name += std::to_string(gpu);
        name += "_";
      }
      return name + "are_their_gpus";
    });

TEST(GpuSharingOfSome, of_long_tensors_and_of_a_call_without_results_has_the_same_bits) {
  if (is_quick()) GTEST_SKIP() << "fake GPUs compute slowly with sanitizers";
  const SharedGpus ranks{{0}, {0, 1}, {1}};
  const FakeGpus fakes(cuda_of(ranks));
  const std::vector<TensorCase> tensors{{DType::f32, 300'000}, {DType::bf16, 3}, {DType::bf16, 524'289}};
  const std::vector<RowCase> rows{{DType::f32, {100'001}}, {DType::u8, {3}}, {DType::f64, {131'072}}};
  on_sharing_ranks(
      fakes, ranks,
      [&](Communicator& comm, const DeviceOf& device_of) {
        check_in_place(comm, device_of, tensors);
        for (int root = 0; root < comm.size(); ++root) check_broadcast(comm, root, device_of, tensors);
        check_gather(comm, -1, device_of, tensors);
        check_scatter(comm, 2, -1, device_of, rows);
        check_all_to_all(comm, AllToAllForm::even_in_place, device_of, rows);
        check_all_to_all(comm, AllToAllForm::uneven, device_of, rows);
        // only rank 0 wants a result
        Batch batch({{DType::f32, 1000}}, comm.layout(), comm.rank(), device_of);
        if (comm.rank() == 0) batch.add_output(0, DType::f32, 1000, device_of(0));
        comm.all_reduce(batch.items(), ReduceOp::sum);
        const Bytes expected = reduced(ReduceOp::sum, {DType::f32, 1000}, 0, comm.layout().replicas());
        for (const Bytes& result : batch.results(0)) EXPECT_EQ(result, expected);
      },
      canonical());
}

TEST(GpuSharingOfSome, makes_streams_of_clients_and_proxies_wait_for_the_outputs) {
  const SharedGpus ranks{{0}, {0}, {1}};
  const FakeGpus fakes(cuda_of(ranks));
  const TensorCase tensor{DType::f32, 10'007};
  on_sharing_ranks(
      fakes, ranks,
      [&](Communicator& comm, const DeviceOf& device_of) {
        const Bytes expected = reduced(ReduceOp::sum, tensor, 0, comm.layout().replicas());
        for (int round = 0; round < 5; ++round) {
          Batch batch({tensor}, comm.layout(), comm.rank(), device_of);
          batch.reduce_in_place(0);
          const std::vector<Item> items = batch.items();
          const TensorView output = items.front().outputs.front();
          Request request = comm.all_reduce_async(items, ReduceOp::sum);
          StreamReader reader(output.device);
          request.wait(reader.stream());
          reader.read(output);
          EXPECT_EQ(reader.bytes(), expected);
          request.wait();
        }
      },
      canonical());
}

/// The errors of `body`, by rank; afterwards the communicators work.
std::vector<std::string> errors_of_sharing(const FakeGpus& fakes, const SharedGpus& ranks,
                                           FunctionRef<void(Communicator&, const DeviceOf&)> body, int fail_ms = 2000) {
  std::vector<std::string> errors(ranks.size());
  on_sharing_ranks(
      fakes, ranks,
      [&](Communicator& comm, const DeviceOf& device_of) {
        check_in_place(comm, device_of, {{DType::i64, 10}}, long_deadline());
        comm.barrier(long_deadline());
        errors[static_cast<std::size_t>(comm.rank())] = error_of([&] { body(comm, device_of); });
        comm.barrier(long_deadline());
        check_all_reduce(comm, ReduceOp::sum, long_deadline(Order::canonical), device_of);
        check_in_place(comm, device_of, {{DType::i64, 140'000}}, long_deadline());
      },
      short_deadline(fail_ms));
  return errors;
}

void sum_once(Communicator& comm, const DeviceOf& device_of) {
  Batch batch({{DType::f32, 1000}}, comm.layout(), comm.rank(), device_of);
  batch.reduce_in_place(0);
  comm.all_reduce(batch.items(), ReduceOp::sum);
}

const SharedGpus two_of_three{{0}, {0}, {1}};

TEST(GpuSharingFaults, of_a_missing_proxy_or_client_are_the_deadline_on_every_rank) {
  for (const int absent : {0, 1}) {
    const FakeGpus fakes(cuda_of(two_of_three));
    LateRanks late(3, {absent});
    const auto errors = errors_of_sharing(fakes, two_of_three, [&](Communicator& comm, const DeviceOf& device_of) {
      late.call(comm, [&] {
        if (comm.rank() == absent) comm.barrier();  // hears of it
        sum_once(comm, device_of);
      });
    });
    for (const std::string& error : errors) {
      expect_all(error, {"deadline_exceeded:", "timed out after 2 s"});
      if (virtual_time::is_active()) expect_all(error, {"waiting for rank " + std::to_string(absent)});
    }
  }
}

TEST(GpuSharingFaults, of_a_client_or_proxy_with_a_hung_gpu_are_the_deadline_on_every_rank) {
  RecordProperty("leaks_threads", "of the streams of a lost GPU");
  for (const int rank : {0, 1}) {
    const FakeGpus fakes(cuda_of(two_of_three));
    std::promise<void> release;
    const std::shared_future<void> is_released(release.get_future());
    std::vector<std::string> errors(3);
    on_ranks(
        {1, 1, 1},
        [&](Communicator& comm) {
          const Device device = devices_of(two_of_three, comm.rank())(0);
          Batch batch({{DType::f32, 1000}}, comm.layout(), comm.rank(), [device](int) { return device; });
          batch.reduce_in_place(0);
          const std::vector<Item> items = batch.items();
          comm.all_reduce(items, ReduceOp::sum, long_deadline());
          if (comm.rank() == rank) {
            const detail::cuda::CurrentDevice current(device.index);
            const auto stand_still = [is_released] {
              is_released.wait();
              return SharedCudaStatus::success;
            };
            EXPECT_EQ(fakes.cuda().launch("stand still", detail::cuda::stream_of(device), stand_still),
                      SharedCudaStatus::success);
          }
          errors[static_cast<std::size_t>(comm.rank())] = error_of([&] { comm.all_reduce(items, ReduceOp::sum); });
          // its GPU may finish the work later: its memory is not used again
          expect_all(error_of([&] { comm.barrier(long_deadline()); }), {"unavailable:", "no longer works"});
          if (comm.rank() == rank) release.set_value();
        },
        short_deadline(2000));
    for (const std::string& error : errors)
      expect_all(error, {"deadline_exceeded:", "timed out after 2 s", "work on the GPUs is not complete"});
  }
}

TEST(GpuSharingFaults, of_nccl_on_a_proxy_are_the_error_of_clients_too) {
  for (const int leader : {0, 1}) {
    const FakeGpus fakes(cuda_of(two_of_three));
    const auto errors = errors_of_sharing(fakes, two_of_three, [&](Communicator& comm, const DeviceOf& device_of) {
      if (comm.rank() == 0) fakes.nccl().fail_launch(leader, SharedNcclResult::remote_error);
      comm.barrier(long_deadline());
      sum_once(comm, device_of);
    });
    for (const std::string& error : errors) expect_all(error, {"unavailable:", "NCCL"});
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_EQ(errors[0], errors[2]);
  }
}

TEST(GpuSharingFaults, of_a_hung_operation_are_the_deadline_of_clients_too) {
  const FakeGpus fakes(cuda_of(two_of_three));
  testing::internal::CaptureStderr();
  const auto errors = errors_of_sharing(fakes, two_of_three, [&](Communicator& comm, const DeviceOf& device_of) {
    if (comm.rank() == 0) fakes.nccl().never_end(1);
    comm.barrier(long_deadline());
    sum_once(comm, device_of);
  });
  for (const std::string& error : errors)
    expect_all(error, {"deadline_exceeded:", "timed out after 2 s", "work on the GPUs is not complete"});
  // the memory for the client's result
  expect_all(testing::internal::GetCapturedStderr(), {"leaking ", "bytes of pinned memory"});
}

TEST(GpuSharingFaults, of_a_device_of_a_client_a_proxy_or_neither_are_the_error_of_every_rank) {
  RecordProperty("leaks_threads", "of the streams of a lost GPU");
  for (const int rank : {0, 1, 2}) {
    const FakeGpus fakes(cuda_of(two_of_three));
    std::vector<std::string> errors(3);
    on_ranks(
        {1, 1, 1},
        [&](Communicator& comm) {
          const DeviceOf device_of = devices_of(two_of_three, comm.rank());
          Batch batch({{DType::f32, 1000}}, comm.layout(), comm.rank(), device_of);
          batch.reduce_in_place(0);
          const std::vector<Item> items = batch.items();
          comm.all_reduce(items, ReduceOp::sum, long_deadline());
          comm.barrier(long_deadline());
          if (comm.rank() == rank) fakes.cuda().fail_next_work(device_of(0).index, SharedCudaStatus::launch_failure);
          comm.barrier(long_deadline());
          errors[static_cast<std::size_t>(comm.rank())] = error_of([&] { comm.all_reduce(items, ReduceOp::sum); });
        },
        short_deadline(2000));
    for (const std::string& error : errors) expect_all(error, {"unavailable:"});
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_EQ(errors[0], errors[2]);
  }
}

/// One call of CUDA that fails: the `nth` of `name` after the negotiation, on any rank.
struct BadSharedCall {
  std::string name;
  int nth;
};

class GpuSharingBadCalls : public testing::TestWithParam<BadSharedCall> {};

TEST_P(GpuSharingBadCalls, are_errors_in_bounded_time) {
  const FakeGpus fakes(cuda_of(two_of_three));
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(
      {1, 1, 1},
      [&](Communicator& comm) {
        const DeviceOf device_of = devices_of(two_of_three, comm.rank());
        Batch batch({{DType::f32, 1000}}, comm.layout(), comm.rank(), device_of);
        batch.reduce_in_place(0);
        const std::vector<Item> items = batch.items();
        comm.all_reduce(items, ReduceOp::sum, long_deadline());
        comm.barrier(long_deadline());
        if (comm.rank() == 0)
          fakes.cuda().calls().fail(GetParam().name, GetParam().nth, SharedCudaStatus::launch_failure);
        comm.barrier(long_deadline());
        for (int k = 0; k < 3; ++k) static_cast<void>(error_of([&] { comm.all_reduce(items, ReduceOp::sum); }));
      },
      short_deadline(2000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            virtual_time::is_active() ? std::chrono::minutes(1) : std::chrono::minutes(4));
}

std::vector<BadSharedCall> bad_shared_calls() {
  std::vector<BadSharedCall> calls;
  for (const char* const name : {"memcpy_async", "event_create", "event_record", "event_query", "stream_wait_event",
                                 "malloc_from_pool_async", "reduce"}) {
    for (const int nth : {1, 2, 3, 5}) calls.push_back({name, nth});
  }
  return calls;
}

INSTANTIATE_TEST_SUITE_P(Each, GpuSharingBadCalls, testing::ValuesIn(bad_shared_calls()), [](const auto& instance) {
  return instance.param.name + "_" + std::to_string(instance.param.nth);
});

}  // namespace
}  // namespace lockstep::test
