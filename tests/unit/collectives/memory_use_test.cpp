// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that is freed while an asynchronous operation works with it.

#include <lockstep/base/error.hpp>
#include <lockstep/device/tensor.hpp>

#include "support/nodes.hpp"
#include "support/processor_time.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

/// Has one block, and counts how often it is freed.
class OneBlock final : public MemoryResource {
 public:
  [[nodiscard]] int frees() const { return frees_; }

 private:
  void* do_allocate(std::size_t) override { return block_.data(); }
  void do_deallocate(void*, std::size_t) noexcept override { ++frees_; }

  alignas(64) std::array<std::byte, 256> block_{};
  std::atomic<int> frees_{0};
};

/// Sums a tensor in place.
Request sum_async(Communicator& comm, Tensor& tensor) {
  const ConstTensorView input = tensor.view();
  const TensorView output = tensor.view();
  const Item item{std::span(&input, 1), std::span(&output, 1)};
  return comm.all_reduce_async(std::span(&item, 1), ReduceOp::sum);
}

/// Bytes that one more communicator of `ranks` ranks on nodes of 8 takes on each rank, before its first call.
std::size_t bytes_of_communicator(int ranks) {
  std::vector<int> leaders;
  for (int rank = 0; rank < ranks; ++rank) leaders.push_back(rank / 8 * 8);
  std::barrier all(ranks);
  std::atomic<std::size_t> before{0};
  std::atomic<std::size_t> after{0};
  on_nodes({leaders, std::vector<int>(leaders.size(), 1)}, {}, [&](Communicator& comm) {
    const auto note = [&](std::atomic<std::size_t>& bytes) {
      all.arrive_and_wait();
      if (comm.rank() == 0) bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
      all.arrive_and_wait();
    };
    const Communicator first = comm.duplicate(minutes_to_fail());
    // ranks that wait long send messages, for which they keep memory
    const Communicator another = comm.duplicate(minutes_to_fail());
    note(before);
    const Communicator second = comm.duplicate(minutes_to_fail());
    note(after);
  });
  return (after - before) / static_cast<std::size_t>(ranks);
}

TEST(Memory, of_an_empty_communicator_grows_by_a_few_numbers_for_each_rank) {
  if (is_quick()) GTEST_SKIP() << "sanitizers do not fill in mallinfo2, and make many threads slow";
  constexpr int few = 64;
  constexpr int many = 256;
  const std::size_t least = bytes_of_communicator(few);
  EXPECT_LE(bytes_of_communicator(many), least + 32 * static_cast<std::size_t>(many - few));
}

TEST(Memory, of_a_plan_does_not_grow_with_ranks_times_bytes) {
  if (is_quick()) GTEST_SKIP() << "sanitizers do not fill in mallinfo2";
  const ReplicaLayout layout(std::vector<int>(192, 1));
  auto transports = detail::make_loopback_transports(layout.ranks(), true);
  Communicator comm = CommunicatorAccess::make(std::move(transports.front()), minutes_to_fail(), layout);
  std::vector<float> first(16);
  const Plan warm = comm.prepare_all_reduce(first, ReduceOp::sum);
  const auto prepare = [&](std::int64_t elements) {  // nothing accesses them
    const TensorView output{first.data(), DType::f32, Shape{elements}, Device{}};
    const ConstTensorView input = output;
    const Item item{std::span(&input, 1), std::span(&output, 1)};
    return comm.prepare_all_reduce(std::span(&item, 1), ReduceOp::sum);
  };
  constexpr std::int64_t many = std::int64_t{1} << 28;
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  const Plan plan = prepare(many);
  const std::size_t bytes = mallinfo2().uordblks + mallinfo2().hblkhd - before;
  RecordProperty("bytes", std::to_string(bytes));
  EXPECT_LE(bytes, std::size_t{256} << 10);
  // nor does the time: 4096 times as many elements
  EXPECT_LE(least_processor_time(5, [&] { static_cast<void>(prepare(many)); }),
            100 * least_processor_time(5, [&] { static_cast<void>(prepare(many >> 12)); }));
}

TEST(Memory, of_an_operation_under_way_is_freed_after_the_operation) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const auto memory = std::make_shared<OneBlock>();
    std::optional<Tensor> tensor(Tensor(DType::f32, Shape{4}, memory));
    if (comm.rank() == 1) std::this_thread::sleep_for(100ms);
    Request request = sum_async(comm, *tensor);
    EXPECT_EQ(memory->frees(), 0);
    tensor.reset();
    EXPECT_EQ(memory->frees(), 1);
    EXPECT_TRUE(request.test());  // that it was waited for does not take its outcome away
  });
}

TEST(Memory, of_a_plan_under_way_is_freed_after_its_run) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const auto memory = std::make_shared<OneBlock>();
    std::optional<Tensor> tensor(Tensor(DType::f32, Shape{4}, memory));
    const ConstTensorView input = tensor->view();
    const TensorView output = tensor->view();
    const Item item{std::span(&input, 1), std::span(&output, 1)};
    Plan plan = comm.prepare_all_reduce(std::span(&item, 1), ReduceOp::sum);
    if (comm.rank() == 1) std::this_thread::sleep_for(100ms);
    Request request = plan.run_async();
    tensor.reset();
    EXPECT_EQ(memory->frees(), 1);
    EXPECT_TRUE(request.test());
  });
}

TEST(Memory, of_a_message_that_is_not_received_is_freed_when_the_send_has_failed) {
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        if (comm.rank() == 1) return;
        const auto memory = std::make_shared<OneBlock>();
        std::optional<Tensor> tensor(Tensor(DType::f32, Shape{4}, memory));
        const ConstTensorView view = tensor->view();
        Request request = comm.send_async(std::span(&view, 1), 1);
        testing::internal::CaptureStderr();
        tensor.reset();
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_EQ(memory->frees(), 1);
        EXPECT_NE(
            said.find("16 bytes of memory were freed while send of f32 [4] at collectives/memory_use_test.cpp:146 "
                      "was using them: waited"),
            std::string::npos)
            << said;
        EXPECT_THROW(request.wait(), Error);
      },
      short_deadline());
}

TEST(Memory, beside_that_of_an_operation_is_freed_at_once) {
  on_ranks({1, 1}, [](Communicator& comm) {
    Tensor used(DType::f32, Shape{4});
    Tensor signal(DType::f32, Shape{1});
    const ConstTensorView sent = signal.view();
    const TensorView received = signal.view();
    const auto memory = std::make_shared<OneBlock>();
    std::optional<Tensor> other(Tensor(DType::f32, Shape{4}, memory));
    if (comm.rank() == 1) comm.recv(std::span(&received, 1), 0);  // comes when rank 0 has freed
    Request request = sum_async(comm, used);
    if (comm.rank() == 0) {
      other.reset();
      EXPECT_EQ(memory->frees(), 1);
      EXPECT_FALSE(request.test());
      comm.send(std::span(&sent, 1), 1);
    }
    request.wait();
  });
}

}  // namespace
}  // namespace lockstep::test
