// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks the devices of the tensors of one call: either all tensors are on GPUs, or none; all tensors of one replica
// are on one device.

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

/// The place of one tensor in a call.
struct TensorName {
  std::string_view role;  ///< "input", "output"
  std::size_t index = 0;
  std::size_t item = 0;
};

/// Names the items and tensors of one call in error texts. Texts name an item only if the call has several items. The
/// tensors of a send or recv, each of which is an item, are "the tensor" or "tensor 2".
class CallWords {
 public:
  CallWords(OperationKind kind, std::size_t items) : is_message_(traits(kind).is_message()), items_(items) {}

  /// "input 2 of item 1", or "input 2".
  [[nodiscard]] std::string name(const TensorName& tensor) const;
  /// "item 1", or "the call": the owner of inputs and outputs.
  [[nodiscard]] std::string owner(std::size_t item) const;
  /// "item 1: ", or an empty text.
  [[nodiscard]] std::string prefix(std::size_t item) const;
  /// " of its item", or an empty text.
  [[nodiscard]] std::string_view of_its_item() const { return items_ > 1 ? " of its item" : ""; }

 private:
  bool is_message_;
  std::size_t items_;
};

/// Checks the tensors of one call one by one. Throws Error(invalid_argument), which names the tensor, its replica and
/// the devices, and Error(unavailable) for a GPU that does not exist.
class Places {
 public:
  Places(OperationKind kind, std::size_t items) : kind_(kind), words_(kind, items) {}

  /// Checks `view`, the tensor that `name` names. The tensor belongs to the local replica with global id `replica`; -1:
  /// it belongs to no single replica.
  void add(const ConstTensorView& view, int replica, const TensorName& name);
  /// Called after the last tensor. Checks that all GPUs exist and can access their tensors. Also checks that each
  /// tensor that belongs to no single replica is on the device of some replica of this rank.
  void finish() const;

 private:
  struct Placed {
    Device device;
    int replica = -1;
    TensorName name;
  };
  [[nodiscard]] std::string text_of(const Placed& placed) const;
  void require_reach() const;

  OperationKind kind_;
  CallWords words_;
  std::optional<Placed> first_;
  // The members below contain only tensors on GPUs.
  std::map<Device, Placed> by_device_;                           // the first tensor on each device
  std::map<int, Placed> by_replica_;                             // the first tensor of each replica
  std::map<std::pair<Device, const void*>, Placed> by_address_;  // the first non-empty tensor at each address
  std::vector<Placed> shared_;                                   // tensors that belong to no single replica
};

}  // namespace lockstep::detail
