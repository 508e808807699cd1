// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-train with GPUs that are not there: FAKE_GPUS of them (default: 1), the same for all ranks that have any.

#include "support/fake_gpus.hpp"
#include "train/program.hpp"

#include <cstdlib>

int main(int argc, char** argv) {
  const char* const number = std::getenv("FAKE_GPUS");
  const lockstep::test::FakeGpus gpus({.devices = number != nullptr ? std::atoi(number) : 1});
  return train::run_lockstep_train(argc, argv);
}
