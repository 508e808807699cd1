// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using cuda::Status;

/// One GPU with a stream, and blocks of it.
class FakeKernelsTest : public testing::Test {
 protected:
  FakeKernelsTest() {
    EXPECT_EQ(cuda_->set_device(1), Status::success);
    EXPECT_EQ(cuda_->stream_create(stream_, 0), Status::success);
  }

  float* put(const std::vector<float>& values) {
    void* block = nullptr;
    EXPECT_EQ(cuda_->malloc_async(block, values.size() * sizeof(float), stream_), Status::success);
    EXPECT_EQ(cuda_->memcpy_async(block, values.data(), values.size() * sizeof(float), stream_), Status::success);
    return static_cast<float*>(block);
  }
  std::vector<float> get(const float* block, std::size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(cuda_->memcpy_async(values.data(), block, count * sizeof(float), stream_), Status::success);
    return values;
  }
  /// The sum of two blocks into a third.
  Status add(const float* a, const float* b, float* sum, std::int64_t count) {
    const std::array<FoldInput, 2> inputs = {FoldInput{a, false}, FoldInput{b, false}};
    const std::array<std::uint8_t, 2> merges = {0, 1};
    std::array<void*, 1> outputs = {sum};
    const Fold fold = {.inputs = inputs, .merges = merges, .outputs = outputs, .replicas = 2};
    const Status status = kernels_.reduce(fold, count, stream_);
    outputs = {};  // owned by the caller, which may use it again
    return status;
  }
  Status state() {
    EXPECT_TRUE(cuda_->wait(stream_));
    return cuda_->stream_query(stream_);
  }

  std::shared_ptr<FakeCuda> cuda_ = std::make_shared<FakeCuda>(FakeCudaOptions{.devices = 2});
  FakeKernels kernels_{cuda_};
  cuda::Stream stream_ = nullptr;
};

TEST_F(FakeKernelsTest, reduces_in_order_with_the_stream) {
  float* const a = put({1, 2, 3});
  float* const b = put({10, 20, 30});
  ASSERT_EQ(add(a, b, a, 3), Status::success);
  ASSERT_EQ(add(a, b, b, 3), Status::success);
  EXPECT_EQ(get(b, 3), (std::vector<float>{21, 42, 63}));
  EXPECT_EQ(cuda_->calls().count("reduce"), 2);
}

TEST_F(FakeKernelsTest, count_the_loads_of_their_code) {
  EXPECT_EQ(kernels_.load_all(), Status::success);
  cuda_->calls().fail("load_all", 1, Status::out_of_memory);
  EXPECT_EQ(kernels_.load_all(), Status::out_of_memory);
  EXPECT_EQ(kernels_.load_all(), Status::success);
  EXPECT_EQ(cuda_->calls().count("load_all"), 3);
}

TEST_F(FakeKernelsTest, copies_and_fills) {
  float* const a = put({1, 2, 3, 4});
  float* const b = put({0, 0, 0, 0});
  const std::array<cuda::CopyRegion, 3> pieces = {cuda::CopyRegion{a, b + 2, 8}, cuda::CopyRegion{nullptr, nullptr, 0},
                                                  cuda::CopyRegion{a + 3, b, 4}};
  ASSERT_EQ(kernels_.copy(pieces, stream_), Status::success);
  const float seven = 7;
  ASSERT_EQ(kernels_.fill(a, &seven, sizeof(seven), 3, stream_), Status::success);
  EXPECT_EQ(get(b, 4), (std::vector<float>{4, 0, 1, 2}));
  EXPECT_EQ(get(a, 4), (std::vector<float>{7, 7, 7, 4}));
  EXPECT_EQ(kernels_.fill(a, &seven, 3, 1, stream_), Status::invalid_value);
}

TEST_F(FakeKernelsTest, steps_parameters) {
  float* const parameter = put({1, 2});
  float* const movement = put({0, 1});
  float* const gradient = put({2, 4});
  ASSERT_EQ(kernels_.sgd_step({parameter, 2}, {gradient, 2}, 0.5f, stream_), Status::success);
  EXPECT_EQ(get(parameter, 2), (std::vector<float>{0, 0}));
  ASSERT_EQ(kernels_.momentum_step({parameter, 2}, {movement, 2}, {gradient, 2}, 0.5f, 0.5f, stream_), Status::success);
  EXPECT_EQ(get(movement, 2), (std::vector<float>{-1, -1.5f}));
  EXPECT_EQ(get(parameter, 2), (std::vector<float>{-1, -1.5f}));
  EXPECT_EQ(kernels_.sgd_step({parameter, 2}, {gradient, 1}, 0.5f, stream_), Status::invalid_value);
  float* const square = put({0, 0});
  ASSERT_EQ(kernels_.adam_moments({movement, 2}, {square, 2}, {gradient, 2}, 0.5f, 0.5f, stream_), Status::success);
  EXPECT_EQ(get(square, 2), (std::vector<float>{2, 8}));
  ASSERT_EQ(kernels_.adam_step({parameter, 2}, {movement, 2}, {square, 2}, {gradient, 2}, {1, 0, 0, 0}, stream_),
            Status::success);
  EXPECT_EQ(get(parameter, 2), (std::vector<float>{-2, -2.5f}));
  ASSERT_EQ(kernels_.lamb_direction({gradient, 2}, {parameter, 2}, {movement, 2}, {square, 2}, {1, 1, 0, 1}, stream_),
            Status::success);
  EXPECT_EQ(get(gradient, 2), (std::vector<float>{-1, -1.5f}));
}

TEST_F(FakeKernelsTest, writes_rows) {
  float* const target = put({1, 2, 3, 4});
  float* const slices = put({10, 20, 30, 40});
  const std::vector<std::int64_t> indices = {1, 1};
  std::vector<RowStep> steps = steps_by_row(indices);
  const SparseUpdate update = {.target = target, .slices = slices, .width = 2, .steps = steps};
  ASSERT_EQ(kernels_.apply_sparse_update(update, nullptr, stream_), Status::success);
  steps.front() = {100, 100};  // owned by the caller, which may use them again
  EXPECT_EQ(get(target, 4), (std::vector<float>{1, 2, 43, 64}));
  EXPECT_EQ(cuda_->calls().count("apply_sparse_update"), 1);
}

TEST_F(FakeKernelsTest, refuses_rows_without_room_for_what_is_carried) {
  float* const target = put({0});
  float* const slices = put(std::vector<float>(300, 1));
  const std::vector<RowStep> steps = steps_by_row(std::vector<std::int64_t>(300, 0));
  const SparseUpdate update = {.target = target, .slices = slices, .width = 1, .steps = steps};
  EXPECT_EQ(kernels_.apply_sparse_update(update, nullptr, stream_), Status::invalid_value);
  ASSERT_EQ(kernels_.apply_sparse_update(update, put({0}), stream_), Status::success);
  EXPECT_EQ(get(target, 1), std::vector<float>{300});
}

TEST_F(FakeKernelsTest, fail_the_device_at_rows_beyond_the_end_of_a_block) {
  float* const target = put({1, 2, 3, 4});
  const std::vector<RowStep> steps = steps_by_row(std::vector<std::int64_t>{2});
  const SparseUpdate update = {.target = target, .slices = put({1, 1}), .width = 2, .steps = steps};
  ASSERT_EQ(kernels_.apply_sparse_update(update, nullptr, stream_), Status::success);
  EXPECT_EQ(state(), Status::illegal_address);
}

TEST_F(FakeKernelsTest, reaches_page_locked_memory) {
  void* host = nullptr;
  ASSERT_EQ(cuda_->malloc_host(host, sizeof(float)), Status::success);
  const float two = 2;
  std::memcpy(host, &two, sizeof(two));
  float* const sum = put({0});
  ASSERT_EQ(add(static_cast<float*>(host), static_cast<float*>(host), sum, 1), Status::success);
  EXPECT_EQ(get(sum, 1), std::vector<float>{4});
}

TEST_F(FakeKernelsTest, fail_the_device_beyond_the_end_of_a_block) {
  float* const a = put({1, 2, 3});
  ASSERT_EQ(add(a, a, a, 4), Status::success);
  EXPECT_EQ(state(), Status::illegal_address);
  EXPECT_EQ(add(a, a, a, 3), Status::illegal_address);
}

TEST_F(FakeKernelsTest, fail_the_device_at_memory_of_the_host) {
  std::vector<float> values = {1, 2, 3};
  ASSERT_EQ(add(values.data(), values.data(), values.data(), 3), Status::success);
  EXPECT_EQ(state(), Status::illegal_address);
}

TEST_F(FakeKernelsTest, fail_the_device_at_memory_of_another_one) {
  void* foreign = nullptr;
  cuda::Stream other = nullptr;
  ASSERT_EQ(cuda_->set_device(0), Status::success);
  ASSERT_EQ(cuda_->stream_create(other, 0), Status::success);
  ASSERT_EQ(cuda_->malloc_async(foreign, 64, other), Status::success);
  ASSERT_TRUE(cuda_->wait(other));
  ASSERT_EQ(cuda_->set_device(1), Status::success);
  ASSERT_EQ(cuda_->memset_async(foreign, 0, 64, stream_), Status::success);  // but a copy reaches it
  EXPECT_EQ(state(), Status::success);
  ASSERT_EQ(kernels_.fill(foreign, &foreign, 8, 1, stream_), Status::success);
  EXPECT_EQ(state(), Status::illegal_address);
}

TEST_F(FakeKernelsTest, fail_the_device_at_freed_memory) {
  float* const a = put({1, 2, 3});
  ASSERT_EQ(cuda_->free_async(a, stream_), Status::success);
  ASSERT_EQ(add(a, a, a, 3), Status::success);
  EXPECT_EQ(state(), Status::illegal_address);
}

TEST_F(FakeKernelsTest, fail_the_device_where_memory_is_not_there_yet) {
  cuda::Stream other = nullptr;
  ASSERT_EQ(cuda_->stream_create(other, 0), Status::success);
  cuda_->streams().submit(other, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return Status::success;
  });
  void* block = nullptr;
  ASSERT_EQ(cuda_->malloc_async(block, 64, other), Status::success);
  ASSERT_EQ(kernels_.fill(block, &block, 8, 1, stream_), Status::success);  // no event says that it is
  EXPECT_EQ(state(), Status::illegal_address);
}

TEST_F(FakeKernelsTest, are_refused_on_another_device_than_the_current_one) {
  float* const a = put({1, 2, 3});
  ASSERT_EQ(cuda_->set_device(0), Status::success);
  EXPECT_EQ(add(a, a, a, 3), Status::invalid_handle);
  ASSERT_EQ(cuda_->set_device(1), Status::success);
  EXPECT_EQ(add(a, a, a, 3), Status::success);
}

}  // namespace
}  // namespace lockstep::test
