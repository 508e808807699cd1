// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CudaStream for fake GPUs, whose NCCL has finished when a call returns.

#include "bench/perf/cuda_stream.hpp"

#include <fmt/format.h>

namespace perf {

CudaStream::CudaStream(int device) : device_(device) {}
CudaStream::~CudaStream() = default;
void CudaStream::make_current() const {}
void CudaStream::wait() const {}

std::string pci_bus_id(int index) { return fmt::format("0000:{:02x}:00.0", index + 1); }

}  // namespace perf
