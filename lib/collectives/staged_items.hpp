// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Converts items with views on GPUs and in host memory into calls that a communicator accepts. In each such call, all
// views are on devices of one kind, and views on GPUs are on the GPUs of this rank's replicas. Only for collectives in
// which all outputs of an item are equal.

#pragma once

#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Path of the elements of an item.
enum class DataPath : std::uint8_t {
  as_placed,  ///< between GPUs if all views that decide the path (see DecidedBy) are on GPUs, else through host memory
  host,       ///< through host memory
};

/// The path that `options` request. CommunicationImplementation::ring uses host memory.
[[nodiscard]] inline DataPath path_of(const CommunicationOptions& options) noexcept {
  return options.implementation == CommunicationImplementation::ring ? DataPath::host : DataPath::as_placed;
}

/// The views that decide the path. Every rank has these views.
enum class DecidedBy : std::uint8_t {
  inputs,   ///< inputs of the local replicas; an output on the GPU of one of these inputs needs no copy
  outputs,  ///< outputs, for a broadcast
};

/// Kind of the devices between which an item moves.
[[nodiscard]] DeviceKind kind_of(const Item& item, DataPath path, DecidedBy decided_by) noexcept;

/// Whether any view is on a GPU.
[[nodiscard]] bool touches_gpus(std::span<const Item> items) noexcept;

struct StagingRule {
  DataPath path = DataPath::as_placed;
  DecidedBy decided_by = DecidedBy::inputs;
  const Communicator* communicator = nullptr;  ///< set for a broadcast, whose views do not determine the replicas' GPUs
};

/// Decides which views of one call must be copied.
class Staging {
 public:
  explicit Staging(const StagingRule& rule);

  [[nodiscard]] DeviceKind kind_of(const Item& item) const noexcept {
    return detail::kind_of(item, path_, decided_by_);
  }
  /// Whether a view of `item` on the device `place` needs no copy, if the item moves between devices of `kind`.
  [[nodiscard]] bool is_there(Device place, const Item& item, DeviceKind kind) const noexcept;
  /// Whether the items move between devices of different kinds, or a view needs a copy.
  [[nodiscard]] bool is_needed(std::span<const Item> items) const noexcept;
  /// Device of the copies for `item`.
  [[nodiscard]] Device place_of(const Item& item, DeviceKind kind) const noexcept;

 private:
  DataPath path_;
  DecidedBy decided_by_;
  std::vector<int> gpus_;  // GPUs on which the views of a broadcast may be; empty: all GPUs
};

/// Items that all move between devices of one kind. `add` replaces each view that is on a different device by a copy on
/// a suitable device. `finish` copies the results to the original views, which must stay valid until `finish` returns.
class StagedItems {
 public:
  /// Reserves memory for `items`.
  StagedItems(std::span<const Item> items, const Staging& staging);
  StagedItems(const StagedItems&) = delete;
  StagedItems& operator=(const StagedItems&) = delete;

  void add(const Item& item, DeviceKind kind);
  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }
  void finish();

 private:
  struct Return {
    TensorView target;
    ConstTensorView source;
  };
  void add_outputs(const Item& item, DeviceKind kind, Device place);

  const Staging& staging_;
  // capacity is reserved, because items_ refers to elements of inputs_ and outputs_
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<Item> items_;
  std::vector<Tensor> copies_;
  std::vector<Return> returns_;
};

/// Calls `call(items)`, with copies in place of the views that the communicator does not accept. If some items move
/// between GPUs and other items through host memory, makes two calls: first with the items that move between GPUs, then
/// with the other items. If all views are in host memory, the only cost is a check of every view.
template <class Call>
void with_staged(std::span<const Item> items, const StagingRule& rule, const Call& call) {
  if (!touches_gpus(items)) return call(items);
  const Staging staging(rule);
  if (!staging.is_needed(items)) return call(items);
  for (const DeviceKind kind : {DeviceKind::gpu, DeviceKind::cpu}) {
    StagedItems staged(items, staging);
    for (const Item& item : items) {
      if (staging.kind_of(item) == kind) staged.add(item, kind);
    }
    if (staged.items().empty()) continue;
    call(staged.items());
    staged.finish();
  }
}

}  // namespace lockstep::detail
