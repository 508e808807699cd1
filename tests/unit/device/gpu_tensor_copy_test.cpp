// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/expect_error.hpp"
#include "support/ranks.hpp"
#include "unit/device/gpu_fixture.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using detail::cuda::Status;
using test::elements_of;
using test::expect_error;
using test::Gate;
using test::gpu;
using test::numbers;

class GpuCopy : public test::GpuTest {};

Tensor pinned(const Tensor& tensor) {
  Tensor result = Tensor::uninitialized(tensor.dtype(), tensor.shape(), pinned_memory_resource());
  result.copy_from(tensor.view());
  return result;
}

TEST_F(GpuCopy, carries_all_elements_from_and_to_memory_of_every_kind) {
  for (const std::size_t count : {1U, 1000U, 131'072U, 131'073U, 700'001U}) {
    const Tensor source = numbers(count, 3);
    for (const Tensor& host : {source, pinned(source)}) {
      const Tensor there = host.to(gpu(0));
      EXPECT_EQ(there.device(), gpu(0));
      const Tensor elsewhere = there.to(gpu(1)).to(gpu(1, 2)).clone();
      EXPECT_EQ(elsewhere.device(), gpu(1, 2));
      EXPECT_EQ(elements_of(elsewhere), elements_of(source)) << count;
      Tensor target = pinned(Tensor(DType::f32, source.shape()));
      copy(target.view(), elsewhere.view());
      EXPECT_EQ(elements_of(target), elements_of(source)) << count;
    }
  }
}

TEST_F(GpuCopy, allows_a_source_on_the_host_to_be_overwritten) {
  const Tensor first = numbers(200'000, 1);
  for (Tensor source : {first.clone(), pinned(first)}) {
    const Tensor there = source.to(gpu(0));
    std::ranges::fill(source.elements<float>(), 0.F);
    EXPECT_EQ(elements_of(there), elements_of(first));
  }
}

TEST_F(GpuCopy, to_a_busy_gpu_does_not_wait_for_it) {
  Tensor there(DType::f32, Shape{1000}, nullptr, gpu(0));
  {
    Gate gate(cuda(), stream_handle(gpu(0)));
    Tensor source = numbers(1000, 7);
    there.copy_from(source.view());
    std::ranges::fill(source.elements<float>(), 0.F);
  }
  EXPECT_EQ(elements_of(there), elements_of(numbers(1000, 7)));
}

TEST_F(GpuCopy, starts_after_earlier_work_on_both_streams) {
  for (const Device target : {gpu(1), gpu(0, 1)}) {
    Tensor from(DType::f32, Shape{1000}, nullptr, gpu(0));
    Tensor to(DType::f32, Shape{1000}, nullptr, target);
    {
      Gate source_gate(cuda(), stream_handle(gpu(0)));
      Gate target_gate(cuda(), stream_handle(target));
      from.copy_from(numbers(1000, 5).view());
      to.copy_from(numbers(1000, 9).view());
      copy(to.view(), from.view());
    }
    EXPECT_EQ(elements_of(to), elements_of(numbers(1000, 5)));
  }
}

TEST_F(GpuCopy, completes_before_its_source_is_overwritten_or_freed) {
  for (const Device target : {gpu(1), gpu(0, 1)}) {
    Tensor to(DType::f32, Shape{1000}, nullptr, target);
    Tensor from = numbers(1000, 5).to(gpu(0));
    Gate gate(cuda(), stream_handle(target));
    copy(to.view(), from.view());
    from.copy_from(numbers(1000, 9).view());
    from = Tensor();
    Tensor other(DType::f32, Shape{1000}, nullptr, gpu(0));  // perhaps at the same address
    gate.open();
    EXPECT_EQ(elements_of(to), elements_of(numbers(1000, 5)));
    EXPECT_EQ(elements_of(other), std::vector<float>(1000));
  }
}

TEST_F(GpuCopy, of_a_tensor_onto_itself_changes_nothing) {
  Tensor tensor = numbers(1000).to(gpu(0));
  tensor.copy_from(tensor.view());
  EXPECT_EQ(elements_of(tensor), elements_of(numbers(1000)));
}

TEST_F(GpuCopy, is_correct_in_whatever_order_devices_work) {
  const std::vector<Device> places{gpu(0), gpu(0, 1), gpu(1), Device{}};
  std::mt19937 random(1);
  const auto any = [&](std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); };
  std::vector<Tensor> tensors;
  std::vector<float> expected;
  for (std::size_t i = 0; i < 8; ++i) {
    expected.push_back(static_cast<float>(i));
    tensors.push_back(numbers(300, expected[i]).to(places[any(4)]));
  }
  for (int step = 0; step < 500; ++step) {
    const std::size_t source = any(8);
    const std::size_t target = any(8);
    switch (any(4)) {
      case 0: tensors[target] = tensors[source].to(places[any(4)]).clone(); break;
      case 1: tensors[target].copy_from(tensors[source].view()); break;
      case 2: tensors[target] = tensors[source].clone().reshaped(Shape{300}); break;
      default:
        tensors[source].copy_from(numbers(300, static_cast<float>(step)).view());
        expected[source] = static_cast<float>(step);
        continue;
    }
    expected[target] = expected[source];
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(elements_of(tensors[i]), elements_of(numbers(300, expected[i]))) << i;
  }
}

TEST_F(GpuCopy, serves_more_threads_than_it_has_slots) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 7; ++t) {
    threads.emplace_back([t] {
      const Tensor source = numbers(400'000, static_cast<float>(t));
      for (int round = 0; round < 3; ++round) EXPECT_EQ(elements_of(source.to(gpu(0, t))), elements_of(source));
    });
  }
}

TEST_F(GpuCopy, is_refused_where_dtypes_or_counts_differ) {
  Tensor target = numbers(4).to(gpu(0));
  const Tensor other(DType::f64, Shape{4}, nullptr, gpu(1));
  expect_error(Code::invalid_argument, {"copy", "f64", "f32"}, [&] { copy(target.view(), other.view()); });
  expect_error(Code::invalid_argument, {"copy", "[3]", "[4]"}, [&] { copy(target.view(), numbers(3).view()); });
  EXPECT_EQ(elements_of(target), elements_of(numbers(4)));
}

TEST_F(GpuCopy, is_refused_if_elements_are_not_on_the_device_of_their_view) {
  Tensor host = numbers(4);
  Tensor there = numbers(4, 5).to(gpu(1));
  const TensorView of_host{host.data(), DType::f32, Shape{4}, gpu(0)};
  const TensorView of_another{there.data(), DType::f32, Shape{4}, gpu(0)};
  const std::string not_known = "a view on gpu:0, but its elements are in memory that is not registered with CUDA";
  expect_error(Code::invalid_argument, {"copy: the target is " + not_known}, [&] { copy(of_host, there.view()); });
  expect_error(Code::invalid_argument, {"copy: the source is " + not_known}, [&] { copy(there.view(), of_host); });
  expect_error(Code::invalid_argument, {"copy: the source is " + not_known}, [&] { copy(host.view(), of_host); });
  expect_error(Code::invalid_argument, {"the source is a view on gpu:0", "in memory of gpu:1"},
               [&] { copy(host.view(), of_another); });
  EXPECT_EQ(elements_of(host), elements_of(numbers(4)));
  EXPECT_EQ(elements_of(there), elements_of(numbers(4, 5)));
  Tensor locked = pinned(host);
  const TensorView reached{locked.data(), DType::f32, Shape{4}, gpu(0)};
  copy(there.view(), reached);
  EXPECT_EQ(elements_of(there), elements_of(host));
}

TEST_F(GpuCopy, from_a_hung_device_times_out) {
  const Tensor there = numbers(1000).to(gpu(0, 1));
  synchronize(gpu(0, 1));
  {
    Gate gate(cuda(), stream_handle(gpu(0, 1)));
    set_wait_limit(std::chrono::milliseconds(100));
    const std::vector<std::string> words{"gpu:0#1", "0.1 s"};
    expect_error(Code::deadline_exceeded, words, [&] { static_cast<void>(there.to(Device{})); });
    expect_error(Code::deadline_exceeded, words, [] { synchronize(gpu(0, 1)); });
    set_wait_limit(std::chrono::minutes(2));
    EXPECT_EQ(elements_of(numbers(10).to(gpu(0))), elements_of(numbers(10)));  // others continue
  }
  EXPECT_EQ(elements_of(there), elements_of(numbers(1000)));
}

TEST_F(GpuCopy, waits_as_long_as_the_longest_timeout_of_a_communicator) {
  using detail::cuda::wait_limit;
  const Tensor there = numbers(1000).to(gpu(1));
  synchronize(gpu(1));
  EXPECT_EQ(wait_limit(), std::chrono::seconds(300));
  {
    const Gate gate(cuda(), stream_handle(gpu(1)));
    const auto expect_limit = [&](const char* text) {
      expect_error(Code::deadline_exceeded, {"copy: ", text, "gpu:1"}, [&] { static_cast<void>(there.to(Device{})); });
    };
    const Communicator first = self_communicator(test::short_deadline(100));
    expect_limit("timed out after 0.1 s waiting for");
    {
      const Communicator longer_deadline = self_communicator(test::short_deadline(200));
      expect_limit("timed out after 0.2 s waiting for");
    }
    expect_limit("timed out after 0.1 s waiting for");
  }
  EXPECT_EQ(wait_limit(), std::chrono::seconds(300));
  setenv("LOCKSTEP_TIMEOUT", "7", 1);
  const MirroredStrategy strategy({"gpu:0"});
  unsetenv("LOCKSTEP_TIMEOUT");
  EXPECT_EQ(wait_limit(), std::chrono::seconds(7));
}

TEST_F(GpuCopy, that_times_out_keeps_its_pinned_target_allocated) {
  const Tensor there = numbers(1000, 5).to(gpu(0));
  synchronize(gpu(0));
  const auto resource = pinned_memory_resource();
  std::vector<Tensor> targets(2);
  for (Tensor& target : targets) target = Tensor(DType::f32, Shape{1000}, resource);
  const void* const lost = targets[0].data();
  const void* const kept = targets[1].data();
  Gate gate(cuda(), stream_handle(gpu(0)));
  set_wait_limit(std::chrono::milliseconds(100));
  for (Tensor& target : targets) {
    expect_error(Code::deadline_exceeded, {"gpu:0"}, [&] { copy(target.view(), there.view()); });
  }
  set_wait_limit(std::chrono::minutes(2));  // what follows does not time out, however slow the machine is
  targets[0] = Tensor();
  Tensor next(DType::f32, Shape{1000}, resource);
  EXPECT_NE(next.data(), lost);
  gate.open();
  synchronize(gpu(0));
  EXPECT_EQ(elements_of(next), std::vector<float>(1000));
  // memory that is freed after the end of the copy is reused
  for (int round = 0; round < 2; ++round) {
    targets[1] = Tensor();
    targets[1] = Tensor(DType::f32, Shape{1000}, resource);
    EXPECT_EQ(targets[1].data(), kept);
  }
}

TEST_F(GpuCopy, that_fails_names_the_cuda_call) {
  Tensor tensor = numbers(10).to(gpu(0));
  cuda().calls().fail("memcpy_async", 1, Status::invalid_value);
  expect_error(Code::unavailable, {"cudaMemcpyAsync", "invalid argument"},
               [&] { tensor.copy_from(numbers(10, 1).view()); });
  tensor.copy_from(numbers(10, 2).view());
  EXPECT_EQ(elements_of(tensor), elements_of(numbers(10, 2)));
}

TEST(FailedGpu, gives_cudas_error_text_and_does_not_affect_others) {
  const test::FakeGpus gpus({.devices = 2});
  Tensor tensor = numbers(1000).to(gpu(0));
  synchronize(gpu(0));
  gpus.cuda().fail_next_work(0, Status::illegal_address);
  const std::vector<std::string> words{"an illegal memory access was encountered", "cudaErrorIllegalAddress"};
  expect_error(Code::unavailable, words, [&] { static_cast<void>(elements_of(tensor)); });
  expect_error(Code::unavailable, words, [] { synchronize(gpu(0)); });
  expect_error(Code::unavailable, words, [&] { static_cast<void>(tensor.clone()); });
  expect_error(Code::unavailable, words, [&] { tensor.copy_from(numbers(1000).view()); });
  EXPECT_EQ(elements_of(numbers(10).to(gpu(1))), elements_of(numbers(10)));
}

}  // namespace
}  // namespace lockstep
