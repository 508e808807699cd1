// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a batch of tensors is cut into packs.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// `bytes`, the sizes of tensors, cut into packs without a change of order, each a part of `bytes` itself: a pack takes
/// tensors until it has exceeded `bytes_per_pack`, so it is usually larger than that. [128, 32, 800, 4] with 200 gives
/// [128, 32, 800] and [4]. 0 gives one pack; no sizes give no pack. Local. Throws Error(invalid_argument) for a
/// negative `bytes_per_pack`.
[[nodiscard]] LOCKSTEP_API std::vector<std::span<const std::int64_t>> group_by_size(std::span<const std::int64_t> bytes,
                                                                                    std::int64_t bytes_per_pack);

}  // namespace lockstep
