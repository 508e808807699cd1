// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/copy.hpp"

#include "kernels/target.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep::detail {
namespace {

TEST(CopyBytes, copies_any_number_from_any_address_to_any_address_and_nothing_else) {
  std::vector<unsigned char> source(1000);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(1));
  for (const std::string_view target : kernel_targets()) {
    const ForcedKernelTarget forced(target);
    for (const CopyKind kind : {CopyKind::cached, CopyKind::streamed}) {
      for (std::size_t bytes = 0; bytes < 400; bytes += bytes < 150 ? 1 : 37) {
        for (const std::size_t offset : {0u, 1u, 8u, 31u, 63u}) {
          std::vector<unsigned char> copy(1000, 0xee);
          std::vector<unsigned char> expected = copy;
          for (std::size_t i = 0; i < bytes; ++i) expected[offset + i] = source[5 + i];
          copy_bytes(copy.data() + offset, source.data() + 5, bytes, kind);
          ASSERT_EQ(copy, expected) << target << ", " << bytes << " bytes to offset " << offset;
        }
      }
    }
  }
  copy_bytes(nullptr, nullptr, 0, CopyKind::streamed);
}

}  // namespace
}  // namespace lockstep::detail
