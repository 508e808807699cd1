// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices of the tensors of one call: all tensors are on GPUs or none is; those of a replica are on one device.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_view.hpp>

#include "collectives/call/descriptor.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Names one tensor of a call: "input 2 of item 0".
struct TensorName {
  std::string_view role;  ///< "input", "output"
  std::size_t index = 0;
  std::size_t item = 0;
};

/// Checks the tensors of one call one by one. Throws Error(invalid_argument), which names the tensor, its replica and
/// the devices, and Error(unavailable) for a GPU that does not exist.
class Places {
 public:
  explicit Places(OperationKind kind) : kind_(kind) {}

  /// Tensor `name` is `view`. It belongs to the local replica with global id `replica`; -1: to no single replica.
  void add(const ConstTensorView& view, int replica, const TensorName& name);
  /// After the last tensor: checks that the GPUs exist and reach the tensors on them, and that tensors of no single
  /// replica are on a device of some replica of this rank.
  void finish() const;

 private:
  struct Placed {
    Device device;
    int replica = -1;
    TensorName name;
  };
  [[nodiscard]] static std::string text_of(const Placed& placed);
  void require_reach() const;

  OperationKind kind_;
  std::optional<Placed> first_;
  // tensors on GPUs only
  std::map<Device, Placed> by_device_;                           // the first tensor of each
  std::map<int, Placed> by_replica_;                             // the first tensor of each
  std::map<std::pair<Device, const void*>, Placed> by_address_;  // the first tensor at each; without empty ones
  std::vector<Placed> shared_;
};

}  // namespace lockstep::detail
