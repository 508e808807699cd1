// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf with FAKE_GPUS fake GPUs (default: 1), the same for all ranks. FAKE_HOST_ACCESS=1: the host can access
// their memory, as the fake NCCL of the peer does.

#include "bench/perf/program.hpp"
#include "support/fake_gpus.hpp"

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace {

int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  using lockstep::test::HostAccess;
  const bool may_touch = number_of("FAKE_HOST_ACCESS", 0) != 0;
  const lockstep::test::FakeGpus gpus({.devices = number_of("FAKE_GPUS", 1),
                                       .memory_bytes = std::size_t{1} << 30,
                                       .host_access = may_touch ? HostAccess::allowed : HostAccess::forbidden});
  return perf::run_lockstep_perf(argc, argv);
}
