// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "buckets.hpp"

#include <cstring>
#include <utility>

namespace perf {
namespace {

std::int64_t memory_bytes(std::span<const Bucket> buckets) {
  std::int64_t bytes = 0;
  for (const Bucket& bucket : buckets) bytes += whole_lines(bucket.bytes);
  return bytes;
}

}  // namespace

std::vector<Bucket> buckets_of(std::span<const std::int64_t> bytes_of_tensors, std::int64_t most_bytes) {
  std::vector<Bucket> buckets;
  for (std::size_t i = bytes_of_tensors.size(); i-- > 0;) {
    if (buckets.empty() || buckets.back().bytes + bytes_of_tensors[i] > most_bytes) buckets.emplace_back();
    buckets.back().tensors.push_back(i);
    buckets.back().bytes += bytes_of_tensors[i];
  }
  return buckets;
}

PackedTensors::PackedTensors(std::vector<std::span<std::byte>> tensors, std::span<const Bucket> buckets,
                             const std::shared_ptr<lockstep::MemoryResource>& resource)
    : tensors_(std::move(tensors)), buckets_(buckets), memory_(resource, memory_bytes(buckets)) {
  std::byte* end = memory_.data();
  for (const Bucket& bucket : buckets) {
    packed_.emplace_back(end, static_cast<std::size_t>(bucket.bytes));
    end += whole_lines(bucket.bytes);
  }
}

void PackedTensors::pack(std::size_t index) const {
  std::byte* end = packed_[index].data();
  for (const std::size_t i : buckets_[index].tensors) {
    std::memcpy(end, tensors_[i].data(), tensors_[i].size());
    end += tensors_[i].size();
  }
}

void PackedTensors::unpack(std::size_t index) const {
  const std::byte* begin = packed_[index].data();
  for (const std::size_t i : buckets_[index].tensors) {
    std::memcpy(tensors_[i].data(), begin, tensors_[i].size());
    begin += tensors_[i].size();
  }
}

}  // namespace perf
