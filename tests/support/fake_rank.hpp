// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank of a fake communicator with its GPU and stream, for tests of the fakes themselves.

#pragma once

#include <lockstep/core/dtype.hpp>

#include "support/fake_cuda.hpp"
#include "support/fake_nccl.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

/// A GPU, a stream of it, and a communicator on it, which is ready unless `error` is set. For one thread.
class FakeRank {
 public:
  using Result = detail::nccl::Result;
  using Status = detail::cuda::Status;

  FakeRank(FakeCuda& cuda, FakeNccl& nccl, int device, const detail::nccl::UniqueId& id, int size, int number)
      : ranks(size), rank(number), cuda_(cuda), nccl_(nccl) {
    EXPECT_EQ(cuda_.set_device(device), Status::success);
    EXPECT_EQ(cuda_.stream_create(stream, 0), Status::success);
    error = nccl_.comm_init_rank(comm, ranks, id, rank);
    if (error == Result::in_progress) error = settled();
  }
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;
  ~FakeRank() { destroy(); }

  void destroy() { EXPECT_EQ(nccl_.comm_destroy(std::exchange(comm, nullptr)), Result::success); }
  void abort() { EXPECT_EQ(nccl_.comm_abort(std::exchange(comm, nullptr)), Result::success); }

  /// The communicator's error when nothing is in progress any more.
  [[nodiscard]] Result settled() {
    Result state = Result::in_progress;
    poll_until([&] {
      EXPECT_EQ(nccl_.comm_get_async_error(comm, state), Result::success);
      return state != Result::in_progress;
    });
    return state;
  }
  /// Polls until the communicator fails; success if it does not.
  [[nodiscard]] Result failure() {
    Result state = Result::success;
    poll_until([&] {
      EXPECT_EQ(nccl_.comm_get_async_error(comm, state), Result::success);
      return state != Result::success && state != Result::in_progress;
    });
    return state;
  }

  /// A block with these values; the fake frees it.
  template <class T>
  [[nodiscard]] T* put(const std::vector<T>& values) {
    void* block = nullptr;
    EXPECT_EQ(cuda_.malloc_async(block, values.size() * sizeof(T), stream), Status::success);
    EXPECT_EQ(cuda_.memcpy_async(block, values.data(), values.size() * sizeof(T), stream), Status::success);
    return static_cast<T*>(block);
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(const T* block, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuda_.memcpy_async(values.data(), block, count * sizeof(T), stream), Status::success);
    return values;
  }
  /// An event behind what is on the stream now.
  [[nodiscard]] detail::cuda::Event record() {
    detail::cuda::Event event = nullptr;
    EXPECT_EQ(cuda_.event_create(event), Status::success);
    EXPECT_EQ(cuda_.event_record(event, stream), Status::success);
    return event;
  }
  /// Waits for an event of `record`, and destroys it.
  void await(detail::cuda::Event event) {
    poll_until([&] { return cuda_.event_query(event) == Status::success; });
    EXPECT_EQ(cuda_.event_query(event), Status::success);
    EXPECT_EQ(cuda_.event_destroy(event), Status::success);
  }
  [[nodiscard]] bool is_idle() { return cuda_.stream_query(stream) == Status::success; }

  const int ranks;
  const int rank;
  detail::cuda::Stream stream = nullptr;
  detail::nccl::Comm comm = nullptr;
  Result error = Result::success;

 private:
  /// Returns at the latest after 30 seconds.
  template <class Done>
  static void poll_until(const Done& is_done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_done() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  FakeCuda& cuda_;
  FakeNccl& nccl_;
};

}  // namespace lockstep::test
