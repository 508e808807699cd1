// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Many tensors as few: what frameworks do with a list of gradients before they reduce it.

#pragma once

#include "buffers.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perf {

/// Which tensors are packed together, first to last in memory.
struct Bucket {
  std::vector<std::size_t> tensors;
  std::int64_t bytes = 0;
};

/// What PyTorch's DistributedDataParallel packs together by default (bucket_cap_mb).
inline constexpr std::int64_t bucket_bytes = std::int64_t{25} << 20;

/// The tensors from the last to the first, as gradients become ready, in buckets of at most `most_bytes`; a larger
/// tensor has one of its own. Local.
[[nodiscard]] std::vector<Bucket> buckets_of(std::span<const std::int64_t> bytes_of_tensors, std::int64_t most_bytes);

/// The tensors of one replica, and a copy of them in buckets.
class PackedTensors {
 public:
  /// `tensors` stay where they are: they are those of the rank's replica number `replica` in `memory`, and the buckets
  /// will be too.
  PackedTensors(std::span<const Region> tensors, std::span<const Bucket> buckets, const Memory& memory,
                std::size_t replica);
  [[nodiscard]] const Region& bucket(std::size_t index) const noexcept { return packed_[index]; }
  /// Copies the tensors of a bucket there, and back. Local.
  void pack(std::size_t index) const;
  void unpack(std::size_t index) const;

 private:
  std::vector<Region> tensors_;
  std::span<const Bucket> buckets_;
  DeviceBlock block_;
  std::vector<Region> packed_;
};

}  // namespace perf
