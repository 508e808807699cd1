// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/nccl_demand.hpp"

#include "base/check.hpp"
#include "collectives/make_communicator.hpp"
#include "device/cuda/backend.hpp"

#include <lockstep/device/gpu.hpp>

#include <cstddef>
#include <vector>

namespace lockstep {
namespace {

/// What to do if NCCL cannot be used.
std::string_view advice_to(std::string_view caller) {
  return caller == "NcclAllReduce" ? "use other CrossDeviceOps, such as ReductionToOneDevice"
                                   : "use implementation AUTO or RING";
}

}  // namespace

void require_nccl_here(std::string_view caller) {
  if (gpu_count() == 0) {
    detail::throw_error(Code::unavailable, "{} requires GPUs, but this process has none ({}); {}", caller, gpu_status(),
                        advice_to(caller));
  }
  const detail::nccl::Library& library = detail::cuda::Backend::of_this_process().nccl();
  if (library.api != nullptr) return;
  detail::throw_error(Code::unavailable, "{}: NCCL is unavailable: {}; {}", caller, library.why, advice_to(caller));
}

void require_nccl_between(Communicator& communicator, std::span<const Device> devices, std::string_view caller) {
  const detail::GpuDecision path = CommunicatorAccess::gpu_path(communicator, devices);
  if (path.path != detail::GpuPath::host && path.sharing.empty()) return;
  detail::throw_error(Code::unavailable, "{}: NCCL cannot connect the GPUs of all ranks: {}; {}", caller,
                      path.sharing.empty() ? path.text : path.sharing, advice_to(caller));
}

void require_nccl(Communicator& communicator, std::span<const Item> items, std::string_view caller) {
  require_nccl_here(caller);
  std::vector<Device> devices;
  for (const Item& item : items) {
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      const Device device = item.inputs[i].device;
      if (device.kind != DeviceKind::gpu) {
        detail::throw_error(Code::unavailable,
                            "{}: a value of local replica {} is in host memory ({}), where NCCL cannot read it; copy "
                            "it to the replica's GPU, or {}",
                            caller, i, to_string(device), advice_to(caller));
      }
      if (devices.size() == i) devices.push_back(device);
    }
  }
  require_nccl_between(communicator, devices, caller);
}

}  // namespace lockstep
