// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the tensors of one call lie: all on GPUs or none, those of a replica on one device.

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

/// Which tensor of a call: "input 2 of item 0".
struct TensorName {
  std::string_view role;  ///< "input", "output"
  std::size_t index = 0;
  std::size_t item = 0;
};

/// Takes the tensors of one call one by one. Throws Error(invalid_argument) that names the tensor, its replica and the
/// devices, Error(unavailable) for a GPU that is not here.
class Places {
 public:
  explicit Places(OperationKind kind) : kind_(kind) {}

  /// The tensor `name` is `view`. It is that of the local replica of global id `replica`; with -1 of none alone.
  void add(const ConstTensorView& view, int replica, const TensorName& name);
  /// After the last: the GPUs are here, they reach the tensors on them, and what is of no replica alone lies where some
  /// replica of this rank is.
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
  // of tensors on GPUs alone
  std::map<Device, Placed> by_device_;  // the first tensor of each
  std::map<int, Placed> by_replica_;    // the first tensor of each
  std::map<std::pair<Device, const void*>, Placed>
      by_address_;  // the first tensor at each; without those of no element
  std::vector<Placed> shared_;
};

}  // namespace lockstep::detail
