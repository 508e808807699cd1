// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the kernels that copy and fill, executed on the host by simulated GPU threads.

#include "device/cuda/arguments.hpp"
#include "support/quick.hpp"
#include "support/run_on_host.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <numeric>
#include <random>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

std::vector<unsigned char> random_bytes(std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

/// Regions of these sizes, from places in `source` to places in `target`, with gaps and misaligned addresses.
std::vector<CopyRegion> regions_of(const std::vector<std::size_t>& sizes, const std::vector<unsigned char>& source,
                                   std::vector<unsigned char>& target) {
  std::mt19937 random(5);
  std::vector<CopyRegion> regions;
  std::size_t from = 0;
  std::size_t to = 0;
  for (const std::size_t bytes : sizes) {
    from += random() % 33;
    to += random() % 33;
    regions.push_back({source.data() + from, target.data() + to, bytes});
    from += bytes;
    to += bytes;
  }
  return regions;
}

void expect_copied(const std::vector<std::size_t>& sizes) {
  const std::size_t room = std::accumulate(sizes.begin(), sizes.end(), 64 * (sizes.size() + 1));
  const std::vector<unsigned char> source = random_bytes(room);
  std::vector<unsigned char> target(room, 0x77);
  std::vector<unsigned char> expected = target;
  const std::vector<CopyRegion> regions = regions_of(sizes, source, target);
  for (const CopyRegion& region : regions) {
    const auto place = static_cast<unsigned char*>(region.target) - target.data();
    std::memcpy(expected.data() + place, region.source, region.bytes);
  }
  copy_on_host(regions);
  ASSERT_TRUE(target == expected);
}

TEST(GpuCopy, copies_regions_of_any_size_from_and_to_any_address) {
  std::mt19937 random(9);
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 0; bytes < 70; ++bytes) sizes.push_back(bytes);
  for (int i = 0; i < 300; ++i) sizes.push_back(random() % 20'000);
  expect_copied(sizes);
}

TEST(GpuCopy, cuts_large_regions_into_chunks) {
  for (const std::size_t chunk : std::initializer_list<std::size_t>{4096, 65536}) {
    expect_copied({chunk - 1, chunk, chunk + 1, 1, 3 * chunk + 5, 7, 200'001});
  }
  expect_copied({3, (std::size_t{1} << (test::is_quick() ? 22 : 26)) + 4097, 5});
}

TEST(GpuCopy, splits_many_regions_into_several_launches) {
  for (const std::size_t more : std::initializer_list<std::size_t>{0, 1, 2, CopyArguments::most_regions}) {
    expect_copied(std::vector<std::size_t>(CopyArguments::most_regions + more, 33));
  }
}

TEST(GpuCopy, does_nothing_without_regions) {
  copy_on_host({});
  expect_copied({0, 0, 0});
}

TEST(GpuCopy, keeps_blocks_busy_for_every_size) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20, std::size_t{1} << 26, std::size_t{1} << 38}) {
    const CopyRegion region{nullptr, nullptr, bytes};
    std::span<const CopyRegion> regions(&region, 1);
    const CopyArguments arguments = copy_arguments(regions);
    EXPECT_TRUE(regions.empty());
    const std::size_t chunks = arguments.first_chunk[1];
    EXPECT_GE(chunks * static_cast<std::size_t>(arguments.chunk_bytes), bytes);
    EXPECT_LT((chunks - 1) * static_cast<std::size_t>(arguments.chunk_bytes), bytes);
    EXPECT_TRUE(chunks >= 1024 || arguments.chunk_bytes == 4096) << bytes;
  }
}

TEST(GpuFill, writes_elements_of_every_size_to_any_address) {
  const std::vector<unsigned char> element = random_bytes(8);
  for (const std::size_t size : std::initializer_list<std::size_t>{1, 2, 4, 8}) {
    for (std::size_t distance = 0; distance < 17; ++distance) {
      for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 2, 3, 7, 16, 33, 511, 512, 513, 4099}) {
        std::vector<unsigned char> target(distance + count * size + 20, 0x77);
        std::vector<unsigned char> expected = target;
        for (std::size_t i = 0; i < count; ++i) {
          std::memcpy(expected.data() + distance + i * size, element.data(), size);
        }
        fill_on_host(target.data() + distance, element.data(), size, static_cast<std::int64_t>(count));
        ASSERT_EQ(target, expected) << count << " elements of " << size << " bytes at " << distance;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::detail::cuda
