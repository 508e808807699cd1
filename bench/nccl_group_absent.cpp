// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA, or without NCCL's header.

#include "cuda_stream.hpp"
#include "nccl_group.hpp"
#include "option_values.hpp"

#include <stdexcept>

namespace perf {

void require_nccl() {
  refuse("--compare \"nccl\": this lockstep-perf is built without CUDA and NCCL; give mpi or none");
}

std::string pci_bus_id(int /*index*/) { throw std::logic_error("without NCCL nobody asks"); }

std::unique_ptr<NcclGroup> make_nccl_group(const Job& /*job*/) { throw std::logic_error("there is no NCCL to use"); }

}  // namespace perf
