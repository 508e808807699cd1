// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA's names and texts of errors.

#include "support/fake_cuda.hpp"

#include <utility>

namespace lockstep::test {
namespace {

// name and text, as in CUDA 13
std::pair<std::string, std::string> words_of(detail::cuda::Status status) {
  using detail::cuda::Status;
  switch (status) {
    case Status::success: return {"cudaSuccess", "no error"};
    case Status::invalid_value: return {"cudaErrorInvalidValue", "invalid argument"};
    case Status::out_of_memory: return {"cudaErrorMemoryAllocation", "out of memory"};
    case Status::not_initialized: return {"cudaErrorInitializationError", "initialization error"};
    case Status::stub_library: return {"cudaErrorStubLibrary", "CUDA driver is a stub library"};
    case Status::insufficient_driver:
      return {"cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"};
    case Status::no_device: return {"cudaErrorNoDevice", "no CUDA-capable device is detected"};
    case Status::invalid_device: return {"cudaErrorInvalidDevice", "invalid device ordinal"};
    case Status::invalid_handle: return {"cudaErrorInvalidResourceHandle", "invalid resource handle"};
    case Status::not_ready: return {"cudaErrorNotReady", "device not ready"};
    case Status::illegal_address: return {"cudaErrorIllegalAddress", "an illegal memory access was encountered"};
    case Status::launch_failure: return {"cudaErrorLaunchFailure", "unspecified launch failure"};
    case Status::capture_unsupported:
      return {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"};
    case Status::unknown: break;
  }
  return {"cudaErrorUnknown", "unknown error"};
}

}  // namespace

std::string FakeCuda::error_name(Status status) const { return words_of(status).first; }
std::string FakeCuda::error_string(Status status) const { return words_of(status).second; }

}  // namespace lockstep::test
