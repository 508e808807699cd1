// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests that need a GPU: a real one, or what stands for it.

#pragma once

#include "support/placed_bytes.hpp"

#include <lockstep/device/gpu.hpp>

#include <gtest/gtest.h>

namespace lockstep::test {

/// Tests of it are skipped where there is no GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << gpu_status();
  }
};

/// Replica `index` of those that share the first GPU.
inline Device logical_gpu(int index) { return {.kind = DeviceKind::gpu, .index = 0, .logical = index}; }

}  // namespace lockstep::test
