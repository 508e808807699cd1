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

void require_nccl_here(std::string_view caller) {
  if (gpu_count() == 0)
    detail::throw_error(Code::unavailable, "{}: NCCL requires GPUs, but {}; use AUTO or RING", caller, gpu_status());
  const detail::nccl::Library& library = detail::cuda::Backend::of_this_process().nccl();
  if (library.api != nullptr) return;
  detail::throw_error(Code::unavailable, "{}: NCCL is unavailable: {}; use AUTO or RING", caller, library.why);
}

void require_nccl_between(Communicator& communicator, std::span<const Device> devices, std::string_view caller) {
  const detail::GpuDecision path = CommunicatorAccess::gpu_path(communicator, devices);
  if (path.path != detail::GpuPath::host && path.sharing.empty()) return;
  detail::throw_error(Code::unavailable, "{}: NCCL was requested, but {}; use AUTO or RING", caller,
                      path.sharing.empty() ? path.text : path.sharing);
}

void require_nccl(Communicator& communicator, std::span<const Item> items, std::string_view caller) {
  require_nccl_here(caller);
  std::vector<Device> devices;
  for (const Item& item : items) {
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      const Device device = item.inputs[i].device;
      if (device.kind != DeviceKind::gpu) {
        detail::throw_error(Code::unavailable,
                            "{}: NCCL was requested, but a value of local replica {} is in host memory ({}); copy it "
                            "to the replica's GPU, or use AUTO or RING",
                            caller, i, to_string(device));
      }
      if (devices.size() == i) devices.push_back(device);
    }
  }
  require_nccl_between(communicator, devices, caller);
}

}  // namespace lockstep
