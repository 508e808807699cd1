// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests that need a GPU, a real or a fake one.

#pragma once

#include "support/placed_bytes.hpp"

#include <lockstep/device/gpu.hpp>

#include <gtest/gtest.h>

namespace lockstep::test {

/// A test fixture whose tests are skipped if there is no GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << gpu_status();
  }
};

/// The device of replica number `index` of those that share the first GPU.
inline Device logical_gpu(int index) { return {.kind = DeviceKind::gpu, .index = 0, .logical = index}; }

}  // namespace lockstep::test
