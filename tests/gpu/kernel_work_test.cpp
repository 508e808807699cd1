// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of the measured kernels are checked: a missing result counts as wrong.

#include "gpu/kernel_work.hpp"

#include "gpu/on_gpu.hpp"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::test {
namespace {

class KernelWork : public GpuTest {};

TEST_F(KernelWork, is_wrong_until_a_reduction_was_launched) {
  const DeviceClock clock({.round_seconds = 0, .rounds = 1});
  for (const Alignment alignment : {Alignment::aligned, Alignment::unaligned, Alignment::mixed}) {
    for (const bool in_place : {false, true}) {
      // longer than the compared part
      const ReduceWork work({.replicas = 3, .bytes = (3 << 20) + 4, .alignment = alignment, .in_place = in_place});
      EXPECT_GT(work.count_wrong(), 1000) << to_string(alignment);
      clock.run(work.launch());
      EXPECT_EQ(work.count_wrong(), 0) << to_string(alignment);
    }
  }
}

TEST_F(KernelWork, is_wrong_until_a_fold_with_partial_results_was_launched) {
  const DeviceClock clock({.round_seconds = 0, .rounds = 1});
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i64}) {
    for (const FoldStep step : {FoldStep::to_partial, FoldStep::from_partials}) {
      for (const Alignment alignment : {Alignment::aligned, Alignment::mixed}) {
        const ReduceWork work(
            {.dtype = dtype, .replicas = 5, .bytes = (3 << 20) + 8, .alignment = alignment, .step = step});
        EXPECT_GT(work.count_wrong(), 1000) << to_string(dtype);
        clock.run(work.launch());
        EXPECT_EQ(work.count_wrong(), 0) << to_string(dtype);
      }
    }
  }
}

TEST_F(KernelWork, counts_the_bytes_of_partial_results) {
  const ReduceKind bf16{.dtype = DType::bf16, .replicas = 5, .bytes = 100};
  ReduceKind to_partial = bf16;
  to_partial.step = FoldStep::to_partial;
  ReduceKind from_partials = bf16;
  from_partials.step = FoldStep::from_partials;
  EXPECT_EQ(ReduceWork::moved_bytes(bf16), 10 * 100);
  EXPECT_EQ(ReduceWork::moved_bytes(to_partial), 5 * 100 + 200);
  EXPECT_EQ(ReduceWork::moved_bytes(from_partials), 4 * 200 + 100 + 100);
}

TEST_F(KernelWork, is_wrong_until_tensors_were_packed) {
  const DeviceClock clock({.round_seconds = 0, .rounds = 1});
  constexpr std::array<std::int64_t, 4> bytes{400, 4, 70'000, 4096};
  for (const PackDirection direction : {PackDirection::pack, PackDirection::unpack}) {
    for (const Alignment alignment : {Alignment::aligned, Alignment::unaligned}) {
      const PackWork work(bytes, alignment, direction);
      EXPECT_EQ(work.count_wrong(), 4);
      clock.run(work.launch());
      EXPECT_EQ(work.count_wrong(), 0);
    }
  }
}

TEST_F(KernelWork, is_timed_as_often_as_requested) {
  const DeviceClock clock({.round_seconds = 0, .rounds = 3});
  int launches = 0;
  const Launch nothing = [&](detail::cuda::Stream, int) {
    ++launches;
    return detail::cuda::Status::success;
  };
  EXPECT_GT(clock.us_of(nothing), 0);
  EXPECT_EQ(launches, 2 + 1 + 8 + 3);
  EXPECT_GT(clock.latency_us_of(nothing), 0);
  EXPECT_THROW(clock.run([](detail::cuda::Stream, int) { return detail::cuda::Status::invalid_value; }), Error);
}

}  // namespace
}  // namespace lockstep::test
