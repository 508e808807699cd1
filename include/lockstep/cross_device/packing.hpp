// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Division of a batch of tensors into packs.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Divides a list of tensors, given by their sizes in `bytes`, into packs of consecutive tensors. Each pack is a
/// subspan of `bytes`. Tensors are added to a pack until the pack is larger than `bytes_per_pack`, so a pack is usually
/// larger than `bytes_per_pack`: [128, 32, 800, 4] with 200 gives [128, 32, 800] and [4]. With 0 there is one pack. An
/// empty list gives no packs. Local. Throws Error(invalid_argument) if `bytes_per_pack` is negative.
[[nodiscard]] LOCKSTEP_API std::vector<std::span<const std::int64_t>> group_by_size(std::span<const std::int64_t> bytes,
                                                                                    std::int64_t bytes_per_pack);

}  // namespace lockstep
