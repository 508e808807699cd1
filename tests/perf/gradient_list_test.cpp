// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient lists of lockstep-perf, and their buckets.

#include "bench/harness/gradient_list.hpp"
#include "bench/perf/buckets.hpp"
#include "bench/perf/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace perf {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

TEST(GradientList, has_the_parameters_of_resnet50) {
  const std::vector<std::int64_t> counts = resnet50();
  EXPECT_EQ(counts.size(), 161u);
  EXPECT_EQ(sum(counts), 25'557'032);
  EXPECT_EQ(counts.front(), 64 * 3 * 7 * 7);
  EXPECT_EQ(counts.back(), 1000);
  EXPECT_EQ(*std::max_element(counts.begin(), counts.end()), 512 * 512 * 9);
}

TEST(GradientList, has_the_parameters_of_bert_base) {
  const std::vector<std::int64_t> counts = bert_base();
  EXPECT_EQ(counts.size(), 199u);
  EXPECT_EQ(sum(counts), 109'482'240);
  EXPECT_EQ(counts.front(), 30522 * 768);
  EXPECT_EQ(counts.back(), 768);
}

TEST(Buckets, hold_every_tensor_once_from_the_last_to_the_first) {
  const std::vector<std::int64_t> bytes{10, 200, 30, 40, 50};
  const std::vector<Bucket> buckets = buckets_of(bytes, 100);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].tensors, (std::vector<std::size_t>{4, 3}));
  EXPECT_EQ(buckets[0].bytes, 90);
  EXPECT_EQ(buckets[1].tensors, (std::vector<std::size_t>{2}));
  EXPECT_EQ(buckets[2].tensors, (std::vector<std::size_t>{1}));  // larger than a bucket
  EXPECT_EQ(buckets[3].tensors, (std::vector<std::size_t>{0}));
}

TEST(Buckets, unpack_to_the_original_tensors) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Region> tensors;
  std::vector<std::int64_t> bytes;
  for (const int size : {3, 70, 128}) {
    memory.emplace_back(static_cast<std::size_t>(size), static_cast<std::byte>(size));
    bytes.push_back(size);
  }
  for (std::vector<std::byte>& tensor : memory) tensors.emplace_back(tensor.data(), tensor, lockstep::Device{});
  const auto before = memory;
  const std::vector<Bucket> buckets = buckets_of(bytes, 200);
  const PackedTensors packed(tensors, buckets, host_memory("malloc", 1), 0);
  for (std::size_t i = 0; i < buckets.size(); ++i) packed.pack(i);
  for (std::vector<std::byte>& tensor : memory) std::fill(tensor.begin(), tensor.end(), std::byte{});
  for (std::size_t i = 0; i < buckets.size(); ++i) packed.unpack(i);
  EXPECT_EQ(memory, before);
}

}  // namespace
}  // namespace perf
