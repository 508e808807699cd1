// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/buckets.hpp"

#include "schedule/partition.hpp"

#include <map>

namespace lockstep::detail {
namespace {

std::size_t bytes_of(DType dtype, std::int64_t count) { return static_cast<std::size_t>(count) * size_of(dtype); }

}  // namespace

std::vector<Bucket> buckets_of(std::span<const HostItem> items) {
  std::vector<Bucket> buckets;
  std::map<DType, std::size_t> open;  // by dtype: index of the bucket for the next short tensor
  for (std::size_t i = 0; i < items.size(); ++i) {
    const HostItem& item = items[i];
    if (item.count() == 0) continue;
    if (bytes_of(item.dtype, item.count()) >= short_bytes) {
      buckets.push_back({item.dtype, item.count(), {{i, 0}}});
      continue;
    }
    const auto [slot, is_new] = open.try_emplace(item.dtype, buckets.size());
    if (is_new) buckets.push_back({item.dtype, 0, {}});
    Bucket& bucket = buckets[slot->second];
    const std::int64_t begin = (bucket.count + grain_elements - 1) / grain_elements * grain_elements;
    bucket.members.push_back({i, begin});
    bucket.count = begin + item.count();
    if (bytes_of(bucket.dtype, bucket.count) >= full_bucket_bytes) open.erase(slot);
  }
  return buckets;
}

std::vector<Bucket> single_buckets_of(std::span<const HostItem> items) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < items.size(); ++i) buckets.push_back({items[i].dtype, items[i].count(), {{i, 0}}});
  return buckets;
}

}  // namespace lockstep::detail
