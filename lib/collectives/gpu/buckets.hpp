// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Short tensors of one dtype that are moved and reduced as one long tensor.
//
// Packing costs four passes over the bytes, a call of its own one or two microseconds: about equal at 1 MiB.

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
  std::int64_t begin = 0;  ///< its first element in the bucket, a multiple of grain_elements
};

/// A tensor that is long enough is alone in its bucket and stays in place; several are packed into a buffer.
struct Bucket {
  DType dtype = DType::f32;
  std::int64_t count = 0;  ///< elements, padding between members included
  std::vector<BucketMember> members;

  [[nodiscard]] bool is_packed() const noexcept { return members.size() > 1; }
};

/// Tensors of fewer bytes are packed.
inline constexpr std::size_t short_bytes = std::size_t{1} << 20;
/// A bucket of this many bytes takes no further tensor.
inline constexpr std::size_t full_bucket_bytes = std::size_t{64} << 20;

/// The buckets of these items, without the empty items. The same on all ranks.
[[nodiscard]] std::vector<Bucket> buckets_of(std::span<const HostItem> items);

/// One bucket per item, the empty items included.
[[nodiscard]] std::vector<Bucket> single_buckets_of(std::span<const HostItem> items);

}  // namespace lockstep::detail
