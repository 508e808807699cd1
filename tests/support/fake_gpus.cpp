// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_gpus.hpp"

#include "support/fake_kernels.hpp"

#include <utility>

namespace lockstep::test {
namespace {

detail::cuda::Tables tables_of(const std::shared_ptr<FakeCuda>& cuda, const std::shared_ptr<FakeNccl>& nccl,
                               const FakeNcclOptions& options) {
  auto library = std::make_shared<detail::nccl::Library>();
  if (options.absent.empty()) {
    *library = {.api = nccl, .version = options.version, .path = "a fake NCCL", .why = {}};
  } else {
    library->why = options.absent;
  }
  return {.api = cuda, .kernels = std::make_shared<FakeKernels>(cuda), .nccl = std::move(library)};
}

}  // namespace

FakeGpus::FakeGpus(FakeCudaOptions cuda, const FakeNcclOptions& nccl)
    : cuda_(std::make_shared<FakeCuda>(std::move(cuda))),
      nccl_(std::make_shared<FakeNccl>(cuda_, nccl)),
      tables_(tables_of(cuda_, nccl_, nccl)) {}

}  // namespace lockstep::test
