// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/packing.hpp>

#include "base/check.hpp"

#include <cstddef>

namespace lockstep {

std::vector<std::span<const std::int64_t>> group_by_size(std::span<const std::int64_t> bytes,
                                                         std::int64_t bytes_per_pack) {
  if (bytes_per_pack < 0) {
    detail::throw_error(Code::invalid_argument,
                        "group_by_size: bytes_per_pack is {}; it must be at least 0 (0: everything in one pack)",
                        bytes_per_pack);
  }
  std::vector<std::span<const std::int64_t>> packs;
  std::size_t begin = 0;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes_per_pack > 0 && size > bytes_per_pack) {
      packs.push_back(bytes.subspan(begin, i - begin));
      begin = i;
      size = 0;
    }
    size += bytes[i];
  }
  if (begin < bytes.size()) packs.push_back(bytes.subspan(begin));
  return packs;
}

}  // namespace lockstep
