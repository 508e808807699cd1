// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/streams.hpp"
#include "support/expect_error.hpp"
#include "unit/device/gpu_fixture.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using detail::cuda::OwnedEvent;
using detail::cuda::OwnedStream;
using detail::cuda::Status;
using test::elements_of;
using test::expect_error;
using test::Gate;
using test::gpu;
using test::numbers;

std::string status_with(const test::FakeCudaOptions& cuda, const test::FakeNcclOptions& nccl = {}) {
  const test::FakeGpus gpus(cuda, nccl);
  EXPECT_EQ(gpu_count() == 0, gpu_status().starts_with("no GPU: "));
  return gpu_status();
}

TEST(GpuStatus, lists_the_gpus_and_versions) {
  EXPECT_EQ(status_with({.devices = 2}, {.version = 22809}),
            "2 GPUs: Fake GPU, Fake GPU; CUDA 13.0, driver 13.0; NCCL 2.28.9 of a fake NCCL");
  EXPECT_EQ(status_with({.devices = 1, .driver_version = 13010}, {.absent = "libnccl.so.2 is not here"}),
            "1 GPU: Fake GPU; CUDA 13.0, driver 13.1; no NCCL: libnccl.so.2 is not here");
}

TEST(GpuStatus, tells_why_there_is_none) {
  EXPECT_TRUE(status_with({.devices = 0}).starts_with("no GPU: no GPU is visible; CUDA 13.0, driver 13.0; NCCL "));
  EXPECT_EQ(status_with({.driver_version = 0}, {.version = 22809}),
            "no GPU: no CUDA driver; CUDA 13.0; NCCL 2.28.9 of a fake NCCL");
  EXPECT_EQ(status_with({.driver_version = 12020}, {.absent = "libnccl.so.2 is not here"}),
            "no GPU: the driver is too old: it supports CUDA 12.2, but lockstep was built with CUDA 13.0; "
            "CUDA 13.0, driver 12.2; no NCCL: libnccl.so.2 is not here");
}

TEST(GpuStatus, is_in_the_error_when_a_gpu_is_requested) {
  const test::FakeGpus gpus({.devices = 0});
  expect_error(Code::unavailable, {"gpu:0", "no GPU is visible"},
               [] { Tensor(DType::f32, Shape{1}, nullptr, gpu(0)); });
}

class Gpu : public test::GpuTest {};

TEST_F(Gpu, that_is_not_available_is_refused_with_a_list_of_those_that_are) {
  for (const Device device : {gpu(2), gpu(-1), gpu(7, 3)}) {
    expect_error(Code::unavailable, {to_string(device), "gpu:0 to gpu:1"},
                 [&] { static_cast<void>(stream_handle(device)); });
  }
  expect_error(Code::invalid_argument, {"cpu:0", "not a GPU"},
               [] { static_cast<void>(gpu_memory_resource(Device{})); });
}

TEST_F(Gpu, makes_tensors_of_zeroes) {
  { const Tensor before = numbers(1000, 1).to(gpu(0)); }
  const Tensor tensor(DType::f32, Shape{1000}, nullptr, gpu(0));
  EXPECT_EQ(tensor.device(), gpu(0));
  EXPECT_EQ(elements_of(tensor), std::vector<float>(1000));
}

TEST_F(Gpu, keeps_clones_and_shares_reshaped_tensors) {
  Tensor tensor = numbers(6).to(gpu(1));
  const Tensor clone = tensor.clone();
  const Tensor shared = tensor.reshaped(Shape{2, 3});
  EXPECT_EQ(clone.device(), gpu(1));
  EXPECT_EQ(shared.device(), gpu(1));
  EXPECT_EQ(tensor.to(gpu(1)).data(), tensor.data());
  EXPECT_NE(tensor.to(gpu(1, 1)).data(), tensor.data());
  tensor.copy_from(numbers(6, 10).view());
  EXPECT_EQ(elements_of(clone), elements_of(numbers(6)));
  EXPECT_EQ(elements_of(shared), elements_of(numbers(6, 10)));
}

TEST_F(Gpu, does_not_let_the_host_read_its_elements) {
  Tensor tensor(DType::f32, Shape{2}, nullptr, gpu(0, 1));
  const std::string text = "elements: the tensor is on gpu:0#1, but must be in host memory; copy it with to(Device{})";
  expect_error(Code::failed_precondition, {text}, [&] { static_cast<void>(tensor.elements<float>()); });
  expect_error(Code::failed_precondition, {text}, [&] { static_cast<void>(std::as_const(tensor).elements<float>()); });
  expect_error(Code::invalid_argument, {"f32", "f64"}, [&] { static_cast<void>(tensor.elements<double>()); });
}

TEST_F(Gpu, is_ordered_with_a_stream_of_the_user_in_both_directions) {
  Tensor tensor(DType::u8, Shape{4}, nullptr, gpu(0));
  synchronize(gpu(0));
  const OwnedStream users(0);
  {
    Gate gate(cuda(), users.get());
    ASSERT_EQ(cuda().memset_async(tensor.data(), 1, 4, users.get()), Status::success);
    device_waits_for(gpu(0), users.get());
    const Tensor seen = tensor.clone();
    gate.open();
    EXPECT_EQ(seen.to(Device{}).elements<std::uint8_t>()[3], 1);
  }
  Gate gate(cuda(), stream_handle(gpu(0)));
  tensor.copy_from(Tensor::from(std::vector<std::uint8_t>{2, 2, 2, 2}).view());
  stream_waits_for(users.get(), gpu(0));
  Tensor seen(DType::u8, Shape{4}, pinned_memory_resource());
  ASSERT_EQ(cuda().memcpy_async(seen.data(), tensor.data(), 4, users.get()), Status::success);
  gate.open();
  EXPECT_TRUE(cuda().wait(users.get()));
  EXPECT_EQ(seen.elements<std::uint8_t>()[3], 2);
}

TEST_F(Gpu, has_events_that_are_used_again_without_their_former_record) {
  const auto stream = detail::cuda::stream_of(gpu(0));
  Gate gate(cuda(), stream);
  { OwnedEvent(0).record(stream); }
  const int created = cuda().calls().count("event_create");
  const OwnedEvent event(0);
  EXPECT_EQ(cuda().calls().count("event_create"), created);
  EXPECT_TRUE(event.is_done()) << "the event has not been recorded by its present owner";
  event.hold_back(detail::cuda::stream_of(gpu(0, 1)));  // waits for nothing
  synchronize(gpu(0, 1));
}

TEST_F(Gpu, does_not_disturb_a_capture_of_a_stream_of_the_program) {
  const Tensor tensor = numbers(6).to(gpu(0));
  const OwnedStream users(0);
  cuda().begin_capture(users.get());
  synchronize(gpu(0));
  EXPECT_EQ(elements_of(tensor.clone())[5], 5);
  static_cast<void>(Tensor(DType::f32, Shape{1000}, pinned_memory_resource()).to(gpu(0, 1)));
  EXPECT_TRUE(cuda().end_capture(users.get()));
}

TEST_F(Gpu, is_not_ordered_with_a_stream_that_is_captured) {
  const OwnedStream users(0);
  cuda().begin_capture(users.get());
  const std::string text = "wait_for: a stream of gpu:0 is being captured into a CUDA graph";
  expect_error(Code::failed_precondition, {text}, [&] { device_waits_for(gpu(0), users.get()); });
  expect_error(Code::failed_precondition, {text}, [&] { stream_waits_for(users.get(), gpu(0)); });
  EXPECT_TRUE(cuda().end_capture(users.get()));
  device_waits_for(gpu(0), users.get());
}

TEST_F(Gpu, releases_shared_elements_after_the_work_on_them) {
  Tensor memory = numbers(100).to(gpu(0));
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  const auto stream = detail::cuda::stream_of(gpu(0));
  Gate gate(cuda(), stream);
  const Tensor copied = Tensor::sharing(memory.view(), std::move(owner)).clone();
  EXPECT_FALSE(watched.expired()) << "the copy has not read the elements";
  static_cast<void>(Tensor(DType::f32, Shape{1}, nullptr, gpu(1)));
  EXPECT_FALSE(watched.expired());
  gate.open();
  synchronize(gpu(0));
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(elements_of(copied)[99], 99);
}

TEST_F(Gpu, has_events_that_complete_with_their_stream) {
  const auto stream = detail::cuda::stream_of(gpu(0));
  OwnedEvent event(0);
  EXPECT_TRUE(event.is_done());
  Gate gate(cuda(), stream);
  event.record(stream);
  EXPECT_FALSE(event.is_done());
  EXPECT_FALSE(detail::cuda::is_idle(stream, 0));
  EXPECT_EQ(cuda().take_last_error(), Status::success);
  gate.open();
  synchronize(gpu(0));
  EXPECT_TRUE(event.is_done());
}

TEST_F(Gpu, loads_all_kernels_once_when_it_is_opened) {
  const int before = cuda().calls().count("load_all");
  static_cast<void>(gpu_memory_resource(gpu(1)));
  static_cast<void>(gpu_memory_resource(gpu(1, 1)));
  EXPECT_EQ(cuda().calls().count("load_all"), before + 1);
}

TEST_F(Gpu, whose_kernels_cannot_be_loaded_is_unavailable) {
  cuda().calls().fail("load_all", 1, detail::cuda::Status::invalid_value);
  expect_error(Code::unavailable, {"loading the kernels failed: invalid argument"},
               [] { static_cast<void>(gpu_memory_resource(gpu(1))); });
  static_cast<void>(gpu_memory_resource(gpu(1)));
}

TEST_F(Gpu, has_streams_of_two_priorities) {
  EXPECT_EQ(cuda().priority_of(OwnedStream(0).get()), 0);
  EXPECT_EQ(cuda().priority_of(OwnedStream(0, detail::cuda::Priority::greatest).get()), -5);
}

TEST_F(Gpu, destroys_a_hung_stream_after_a_bounded_time) {
  set_wait_limit(std::chrono::milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  std::optional<OwnedStream> stream(std::in_place, 0);
  Gate gate(cuda(), stream->get());
  stream.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace lockstep
