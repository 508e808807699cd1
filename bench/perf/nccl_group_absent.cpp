// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// For a build without CUDA or without NCCL's header.

#include "bench/harness/option_values.hpp"
#include "bench/perf/cuda_stream.hpp"
#include "bench/perf/nccl_group.hpp"

#include <stdexcept>

namespace perf {

void require_nccl() {
  refuse("--compare \"nccl\": this lockstep-perf is built without CUDA and NCCL; give mpi or none");
}

std::string pci_bus_id(int /*index*/) { throw std::logic_error("pci_bus_id: built without NCCL"); }

std::unique_ptr<NcclGroup> make_nccl_group(const Job& /*job*/) {
  throw std::logic_error("make_nccl_group: built without NCCL");
}

}  // namespace perf
