// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Concatenates distributed values along an axis.

#pragma once

#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// Where the gathered values are stored.
enum class GatherTo : std::uint8_t {
  host,        ///< one copy in host memory
  components,  ///< one copy per component of this rank, on that component's device
};

/// Concatenates the components of each value along an axis, in the order of replica ids. `values[k]` has this rank's
/// components of value k, one per local replica; `result[k]` has the copies of the gathered value. `axes[i]` is the
/// axis of local replica i; if it is negative, it counts from the end. Collective. Throws the same error on every rank:
/// Error(invalid_argument) if a value does not have the axis, if dtypes differ, or if extents along other axes differ;
/// Error(mismatch) if axes of replicas differ. Cost: with several ranks, an all_gather of the shapes, then an
/// all_gather of the elements. If the axis is not the first, one more pass over the elements, in host memory.
[[nodiscard]] std::vector<std::vector<Tensor>> gather_values(CrossDeviceOps& ops, Communicator& communicator,
                                                             std::string_view call,
                                                             std::span<const std::vector<ConstTensorView>> values,
                                                             std::span<const int> axes, GatherTo to,
                                                             const CommunicationOptions& options);

}  // namespace lockstep
