// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The main function of tests that need GPUs, with two fake ones.

#include "support/fake_gpus.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const lockstep::test::FakeGpus gpus({.devices = 2});
  return RUN_ALL_TESTS();
}
