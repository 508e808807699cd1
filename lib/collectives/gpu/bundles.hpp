// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Short tensors of one dtype that are reduced as one long one.
//
// Packing costs four passes over the bytes, a call of its own one or two microseconds: about equal at 1 MiB.

#pragma once

#include "collectives/call/host_item.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One tensor of a bundle.
struct BundleMember {
  std::size_t item = 0;
  std::int64_t begin = 0;  ///< its first element in the bundle, a multiple of grain_elements
};

/// A tensor that is long enough is alone in its bundle and stays where it lies; several are packed.
struct Bundle {
  DType dtype = DType::f32;
  std::int64_t count = 0;  ///< elements, those between members too
  std::vector<BundleMember> members;

  [[nodiscard]] bool is_packed() const noexcept { return members.size() > 1; }
};

/// Tensors of fewer bytes are packed.
inline constexpr std::size_t short_bytes = std::size_t{1} << 20;
/// A pack is closed when it has as many.
inline constexpr std::size_t pack_bytes = std::size_t{64} << 20;

/// The bundles of these items; none of the empty ones. The same on all ranks.
[[nodiscard]] std::vector<Bundle> bundles_of(std::span<const HostItem> items);

/// Every item for itself, the empty ones too.
[[nodiscard]] std::vector<Bundle> single_bundles_of(std::span<const HostItem> items);

}  // namespace lockstep::detail
