// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The data of a file cut into blocks: each has a checksum, and one rank that writes it.

#pragma once

#include "checkpoint/safetensors_header.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::detail {

inline constexpr std::uint64_t block_bytes = std::uint64_t{8} << 20;

struct FileBlock {
  std::size_t tensor = 0;    ///< number in the header
  std::uint64_t offset = 0;  ///< in the tensor
  std::uint64_t bytes = 0;
  int writer = 0;  ///< rank
};

/// The tensors' data as blocks of `bytes_each`, the last of a tensor shorter, in their order in the file; a tensor
/// without elements has none. Of `writers` ranks each gets a contiguous piece, as equal as blocks allow.
[[nodiscard]] std::vector<FileBlock> file_blocks(const SafetensorsHeader& header, std::uint64_t bytes_each,
                                                 int writers);

}  // namespace lockstep::detail
