// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A fold of many inputs as several folds of fewer, with the same bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Inputs [first, first + merges.size()), which fold to one value by themselves.
struct FoldPart {
  std::size_t first = 0;
  std::vector<std::uint8_t> merges;
};

struct FoldParts {
  std::vector<FoldPart> parts;       ///< in order; they tile the inputs
  std::vector<std::uint8_t> merges;  ///< how their values fold
};

/// Cuts a fold with these merges (see fold_merges) into the largest subtrees of at most `most` inputs, `most` at
/// least 1.
[[nodiscard]] FoldParts fold_parts(std::span<const std::uint8_t> merges, std::size_t most);

}  // namespace lockstep::detail
