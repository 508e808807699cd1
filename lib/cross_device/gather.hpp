// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Distributed values put together along an axis.

#pragma once

#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// Where gathered values are wanted.
enum class GatherTo : std::uint8_t {
  host,        ///< one copy in host memory
  components,  ///< a copy for each component of this rank, where that lies
};

/// `result[k]`: the copies, each with the components of value k on all replicas one after the other along `axis`, by
/// replica id. `values[k]` are this rank's components, one per local replica. Negative axes count from the end.
/// Collective. Throws the same on every rank: Error(invalid_argument) for an axis that a value has not, extents that
/// differ along other axes, dtypes that differ; Error(mismatch) for axes that differ between ranks.
/// Cost: with several ranks an all_gather of the shapes before that of the elements; one more pass over the elements
/// where the axis is not the first, which is made in host memory.
[[nodiscard]] std::vector<std::vector<Tensor>> gather_values(CrossDeviceOps& ops, Communicator& communicator,
                                                             std::string_view call,
                                                             std::span<const std::vector<ConstTensorView>> values,
                                                             int axis, GatherTo to,
                                                             const CommunicationOptions& options);

}  // namespace lockstep
