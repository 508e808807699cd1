// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/build_info.hpp>

#include "kernels/target.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

TEST(BuildInfo, names_the_version_the_library_and_the_kernels) {
  const BuildInfo info = build_info();
  EXPECT_EQ(std::count(info.version.begin(), info.version.end(), '.'), 2) << info.version;
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  EXPECT_FALSE(info.mpi_version.empty());
  EXPECT_TRUE(std::string(text.data()).starts_with(info.mpi_version)) << info.mpi_version;
  EXPECT_EQ(info.kernel_target, detail::kernel_target());
}

TEST(BuildInfo, lists_the_compiled_targets_best_first) {
  const std::vector<std::string> compiled = build_info().compiled_targets;
  // those of this processor are among them, in the same order
  auto place = compiled.begin();
  for (const std::string_view target : detail::kernel_targets()) {
    place = std::find(place, compiled.end(), target);
    ASSERT_NE(place, compiled.end()) << target;
    ++place;
  }
}

}  // namespace
}  // namespace lockstep
