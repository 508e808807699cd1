// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-train with FAKE_GPUS fake GPUs (default: 1), the same for all ranks that have any; if FAKE_CUBLAS is set,
// with a fake cuBLAS, never the machine's own.

#include "support/fake_cublas.hpp"
#include "support/fake_gpus.hpp"
#include "support/fake_train_kernels.hpp"
#include "train/program.hpp"

#include <cstdlib>
#include <memory>

int main(int argc, char** argv) {
  using lockstep::test::HostAccess;
  const char* const number = std::getenv("FAKE_GPUS");
  const bool has_cublas = std::getenv("FAKE_CUBLAS") != nullptr;
  const lockstep::test::FakeGpus gpus({.devices = number != nullptr ? std::atoi(number) : 1,
                                       .host_access = has_cublas ? HostAccess::allowed : HostAccess::forbidden});
  const auto open = [&]() -> train::gpu::Backend {
    if (!has_cublas) return {.why = "no cuBLAS for fake GPUs"};
    return {.cublas = std::make_shared<train::test::FakeCublas>(gpus.cuda()),
            .kernels = std::make_shared<train::test::FakeTrainKernels>(gpus.cuda()),
            .name = "a fake cuBLAS",
            .why = {}};
  };
  return train::run_lockstep_train(argc, argv, open);
}
