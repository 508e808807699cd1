// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL alone with one rank: every call that lockstep makes; the results equal the inputs.

#include "bindings/nccl/nccl.hpp"

#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "gpu/on_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace lockstep::detail::nccl {
namespace {

using test::Bytes;
using test::logical_gpu;
using test::PlacedBytes;

constexpr std::int64_t count = 10'007;

class OneRankOfNccl : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const Library& library = cuda::Backend::of_this_process().nccl();
    if (library.api == nullptr) GTEST_SKIP() << library.why;
    api_ = library.api.get();
    const cuda::CurrentDevice current(0);
    UniqueId id;
    ASSERT_EQ(api_->get_unique_id(id), Result::success);
    ASSERT_TRUE(is_under_way(api_->comm_init_rank(comm_, 1, id, 0)));
    ASSERT_EQ(settled(), Result::success) << api_->last_error(comm_);
  }
  void TearDown() override {
    if (comm_ == nullptr) return;
    EXPECT_TRUE(is_under_way(api_->comm_finalize(comm_)));
    EXPECT_EQ(settled(), Result::success);
    EXPECT_EQ(api_->comm_destroy(comm_), Result::success);
  }

  static bool is_under_way(Result result) { return result == Result::success || result == Result::in_progress; }
  /// The result of a call in progress, awaited for a bounded time.
  Result settled() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Result state = Result::in_progress;
    while (state == Result::in_progress && std::chrono::steady_clock::now() < end) {
      if (const Result result = api_->comm_get_async_error(comm_, state); result != Result::success) return result;
      if (state == Result::in_progress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return state;
  }

  using Call = std::function<Result(const void* source, void* target, Stream stream)>;
  void expect_copy(const char* name, const Call& call) {
    const cuda::CurrentDevice current(0);
    const Bytes bytes = test::awkward_values(DType::f32, count, 3);
    PlacedBytes source(bytes, logical_gpu(0));
    PlacedBytes target(Bytes(bytes.size()), logical_gpu(0));
    EXPECT_TRUE(is_under_way(call(source.data(), target.data(), cuda::stream_of(logical_gpu(0))))) << name;
    EXPECT_EQ(settled(), Result::success) << name << ": " << api_->last_error(comm_);
    EXPECT_EQ(target.bytes(), bytes) << name;
    EXPECT_TRUE(target.room_is_untouched()) << name;
  }

  Api* api_ = nullptr;
  Comm comm_ = nullptr;
};

TEST_F(OneRankOfNccl, returns_the_input_of_every_collective) {
  expect_copy("all_reduce", [&](const void* source, void* target, Stream stream) {
    return api_->all_reduce(source, target, count, DType::f32, RedOp::sum, comm_, stream);
  });
  expect_copy("reduce", [&](const void* source, void* target, Stream stream) {
    return api_->reduce(source, target, count, DType::f32, RedOp::max, 0, comm_, stream);
  });
  expect_copy("broadcast", [&](const void* source, void* target, Stream stream) {
    return api_->broadcast(source, target, count, DType::f32, 0, comm_, stream);
  });
  expect_copy("reduce_scatter", [&](const void* source, void* target, Stream stream) {
    return api_->reduce_scatter(source, target, count, DType::f32, RedOp::sum, comm_, stream);
  });
  expect_copy("all_gather", [&](const void* source, void* target, Stream stream) {
    return api_->all_gather(source, target, count, DType::f32, comm_, stream);
  });
}

TEST_F(OneRankOfNccl, combines_the_calls_of_a_group) {
  expect_copy("group", [&](const void* source, void* target, Stream stream) {
    EXPECT_EQ(api_->group_start(), Result::success);
    for (std::int64_t i = 0; i < count; i += 1001) {
      const auto part = static_cast<std::size_t>(std::min<std::int64_t>(1001, count - i));
      EXPECT_TRUE(is_under_way(api_->all_reduce(static_cast<const float*>(source) + i, static_cast<float*>(target) + i,
                                                part, DType::f32, RedOp::sum, comm_, stream)));
    }
    return api_->group_end();
  });
}

TEST_F(OneRankOfNccl, sends_to_itself) {
  expect_copy("send and recv", [&](const void* source, void* target, Stream stream) {
    EXPECT_EQ(api_->group_start(), Result::success);
    EXPECT_TRUE(is_under_way(api_->send(source, count, DType::f32, 0, comm_, stream)));
    EXPECT_TRUE(is_under_way(api_->recv(target, count, DType::f32, 0, comm_, stream)));
    return api_->group_end();
  });
}

TEST_F(OneRankOfNccl, can_be_aborted) {
  EXPECT_EQ(api_->comm_abort(comm_), Result::success);
  comm_ = nullptr;
}

}  // namespace
}  // namespace lockstep::detail::nccl
