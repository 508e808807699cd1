// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The same cases with replicas on fake GPUs, whose memory the host cannot access.

#include "conformance/devices.hpp"
#include "support/fake_gpus.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const lockstep::test::FakeGpus gpus({.devices = lockstep::conformance::most_gpus});
  lockstep::conformance::use_gpus();
  return RUN_ALL_TESTS();
}
