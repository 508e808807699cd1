// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Buckets: several tensors packed into one buffer, as frameworks do with gradients before they reduce them.

#pragma once

#include "bench/perf/buffers.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perf {

/// The tensors of one bucket, in the order of their bytes in memory.
struct Bucket {
  std::vector<std::size_t> tensors;
  std::int64_t bytes = 0;
};

/// The default size of a bucket of PyTorch's DistributedDataParallel (bucket_cap_mb).
inline constexpr std::int64_t bucket_bytes = std::int64_t{25} << 20;

/// Divides the tensors into buckets of at most `most_bytes`, from the last tensor to the first, the order in which
/// gradients become ready. A larger tensor has a bucket of its own. Local.
[[nodiscard]] std::vector<Bucket> buckets_of(std::span<const std::int64_t> bytes_of_tensors, std::int64_t most_bytes);

/// The tensors of one replica, and a copy of them in buckets.
class PackedTensors {
 public:
  /// `tensors` are not moved. They belong to the rank's replica number `replica` in `memory`; the buckets are allocated
  /// there too.
  PackedTensors(std::span<const Region> tensors, std::span<const Bucket> buckets, const Memory& memory,
                std::size_t replica);
  [[nodiscard]] const Region& bucket(std::size_t index) const noexcept { return packed_[index]; }
  /// Copies the tensors of a bucket into it, and back. Local.
  void pack(std::size_t index) const;
  void unpack(std::size_t index) const;

 private:
  std::vector<Region> tensors_;
  std::span<const Bucket> buckets_;
  DeviceBlock block_;
  std::vector<Region> packed_;
};

}  // namespace perf
