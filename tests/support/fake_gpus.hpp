// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs for tests on machines without GPUs.

#pragma once

#include "device/cuda/backend.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_nccl.hpp"

#include <memory>

namespace lockstep::test {

/// The process's GPUs while the object lives: `FakeGpus gpus({.devices = 2});`. Everything on them must be destroyed
/// first. One object at a time.
class FakeGpus {
 public:
  explicit FakeGpus(FakeCudaOptions cuda = {}, const FakeNcclOptions& nccl = {});

  [[nodiscard]] FakeCuda& cuda() const { return *cuda_; }
  [[nodiscard]] FakeNccl& nccl() const { return *nccl_; }

 private:
  std::shared_ptr<FakeCuda> cuda_;
  std::shared_ptr<FakeNccl> nccl_;
  detail::cuda::InstalledTables tables_;
};

}  // namespace lockstep::test
