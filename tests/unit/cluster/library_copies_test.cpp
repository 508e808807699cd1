// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/library_copies.hpp"

#include <lockstep/cluster/build_info.hpp>

#include <gtest/gtest.h>

#include <filesystem>

namespace lockstep {
namespace {

TEST(LibraryCopies, are_this_program_alone_with_its_path_and_version) {
  const auto copies = detail::library_copies();
  ASSERT_EQ(copies.size(), 1);
  EXPECT_EQ(copies.front().path, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(copies.front().version, build_info().version);
  EXPECT_NO_THROW(detail::check_for_one_copy("a test"));
}

}  // namespace
}  // namespace lockstep
