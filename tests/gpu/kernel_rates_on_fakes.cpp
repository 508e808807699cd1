// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// kernel-rates on a fake GPU.

#include "gpu/kernel_rates.hpp"
#include "support/fake_gpus.hpp"

int main(int argc, char** argv) {
  const lockstep::test::FakeGpus gpus;
  return lockstep::test::run_kernel_rates(argc, argv);
}
