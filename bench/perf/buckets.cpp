// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/buckets.hpp"

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

PackedTensors::PackedTensors(std::span<const Region> tensors, std::span<const Bucket> buckets, const Memory& memory,
                             std::size_t replica)
    : tensors_(tensors.begin(), tensors.end()),
      buckets_(buckets),
      block_(memory.kind, memory.devices[replica], memory_bytes(buckets)) {
  std::int64_t end = 0;
  for (const Bucket& bucket : buckets) {
    packed_.push_back(block_.region(end, bucket.bytes));
    end += whole_lines(bucket.bytes);
  }
}

void PackedTensors::pack(std::size_t index) const {
  std::size_t end = 0;
  for (const std::size_t i : buckets_[index].tensors) {
    copy(packed_[index].part(end, tensors_[i].size()), tensors_[i]);
    end += tensors_[i].size();
  }
}

void PackedTensors::unpack(std::size_t index) const {
  std::size_t begin = 0;
  for (const std::size_t i : buckets_[index].tensors) {
    copy(tensors_[i], packed_[index].part(begin, tensors_[i].size()));
    begin += tensors_[i].size();
  }
}

}  // namespace perf
