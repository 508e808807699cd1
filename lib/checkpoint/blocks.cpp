// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/blocks.hpp"

#include <algorithm>

namespace lockstep::detail {

std::vector<FileBlock> file_blocks(const SafetensorsHeader& header, std::uint64_t bytes_each, int writers) {
  std::vector<FileBlock> blocks;
  for (std::size_t k = 0; k < header.tensors.size(); ++k) {
    const TensorEntry& tensor = header.tensors[k];
    for (std::uint64_t offset = 0; offset < tensor.byte_count(); offset += bytes_each) {
      const std::uint64_t bytes = std::min(bytes_each, tensor.byte_count() - offset);
      // by the middle of the block: no rank is without work because others' pieces are rounded up
      const std::uint64_t middle = tensor.begin + offset + bytes / 2;
      const double place = static_cast<double>(middle);
      const double share = place / static_cast<double>(header.data_bytes);
      blocks.push_back({k, offset, bytes, std::min(static_cast<int>(share * writers), writers - 1)});
    }
  }
  return blocks;
}

}  // namespace lockstep::detail
