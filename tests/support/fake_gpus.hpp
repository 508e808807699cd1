// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs for tests on machines that have none.

#pragma once

#include "device/cuda/backend.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_nccl.hpp"

#include <memory>

namespace lockstep::test {

/// While it lives, these are the process's GPUs: `FakeGpus gpus({.devices = 2});`. Everything made of them must be gone
/// before it is. Not two at once.
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
