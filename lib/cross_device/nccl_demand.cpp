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

void require_nccl_here(std::string_view who) {
  if (gpu_count() == 0)
    detail::throw_error(Code::unavailable, "{}: NCCL is between GPUs, but there is {}; give AUTO or RING", who,
                        gpu_status());
  const detail::nccl::Library& library = detail::cuda::Backend::of_this_process().nccl();
  if (library.api != nullptr) return;
  detail::throw_error(Code::unavailable, "{}: NCCL is not here: {}; give AUTO or RING", who, library.why);
}

void require_nccl_between(Communicator& communicator, std::span<const Device> devices, std::string_view who) {
  const detail::GpuDecision path = CommunicatorAccess::gpu_path(communicator, devices);
  if (path.path != detail::GpuPath::host && path.sharing.empty()) return;
  detail::throw_error(Code::unavailable, "{}: NCCL is asked for, but {}; give AUTO or RING", who,
                      path.sharing.empty() ? path.text : path.sharing);
}

void require_nccl(Communicator& communicator, std::span<const Item> items, std::string_view who) {
  require_nccl_here(who);
  std::vector<Device> devices;
  for (const Item& item : items) {
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      const Device device = item.inputs[i].device;
      if (device.kind != DeviceKind::gpu) {
        detail::throw_error(Code::unavailable,
                            "{}: NCCL is asked for, but a value of local replica {} lies in host memory ({}); bring it "
                            "to the replica's GPU, or give AUTO or RING",
                            who, i, to_string(device));
      }
      if (devices.size() == i) devices.push_back(device);
    }
  }
  require_nccl_between(communicator, devices, who);
}

}  // namespace lockstep
