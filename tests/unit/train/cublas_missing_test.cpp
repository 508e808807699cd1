// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/gpu/backend.hpp"

#include <gtest/gtest.h>

namespace train::gpu {
namespace {

TEST(Cublas, is_not_there_in_a_build_without) {
  const Backend backend = open_backend();
  EXPECT_EQ(backend.cublas, nullptr);
  EXPECT_EQ(backend.why, "built without CUDA or without cublas_v2.h");
}

}  // namespace
}  // namespace train::gpu
