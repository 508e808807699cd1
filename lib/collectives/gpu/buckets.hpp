// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Buckets: several short tensors of one dtype are packed, and then moved and reduced like one long tensor.
//
// Packing and unpacking a tensor costs four passes over its bytes. A separate call for the tensor costs one or two
// microseconds. The two costs are about equal for a tensor of 1 MiB.

#pragma once

#include "collectives/call/host_item.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One tensor of a bucket.
struct BucketMember {
  std::size_t item = 0;
  std::int64_t begin = 0;  ///< index of the tensor's first element in the bucket; a multiple of grain_elements
};

/// One or more tensors. A single tensor stays in place; several tensors are packed into a buffer.
struct Bucket {
  DType dtype = DType::f32;
  std::int64_t count = 0;  ///< number of elements, including the padding between members
  std::vector<BucketMember> members;

  [[nodiscard]] bool is_packed() const noexcept { return members.size() > 1; }
};

/// Tensors of this size or more are not packed.
inline constexpr std::size_t short_bytes = std::size_t{1} << 20;
/// When a bucket has reached this size, no further tensor is added to it.
inline constexpr std::size_t full_bucket_bytes = std::size_t{64} << 20;

/// Packs the items into buckets. Items without elements are in no bucket. All ranks get the same buckets.
[[nodiscard]] std::vector<Bucket> buckets_of(std::span<const HostItem> items);

/// Makes one bucket per item, also for items without elements.
[[nodiscard]] std::vector<Bucket> single_buckets_of(std::span<const HostItem> items);

}  // namespace lockstep::detail
