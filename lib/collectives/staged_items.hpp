// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Items whose views lie partly on GPUs and partly in host memory, as calls that a communicator takes: all views of a
// call in one kind of place, those on GPUs where this rank has replicas. For collectives that give every output the
// same.

#pragma once

#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Which way the elements of an item go.
enum class DataPath : std::uint8_t {
  as_placed,  ///< between GPUs where all views that decide lie on some, else through host memory
  host,       ///< through host memory
};

/// RING is through host memory.
[[nodiscard]] inline DataPath path_of(const CommunicationOptions& options) noexcept {
  return options.implementation == CommunicationImplementation::ring ? DataPath::host : DataPath::as_placed;
}

/// The views that decide: those that every rank has.
enum class DecidedBy : std::uint8_t {
  inputs,   ///< those of the local replicas; outputs may be on the same GPUs
  outputs,  ///< of a broadcast
};

/// Where an item goes.
[[nodiscard]] DeviceKind kind_of(const Item& item, DataPath path, DecidedBy decided_by) noexcept;

/// Whether any view lies on a GPU.
[[nodiscard]] bool touches_gpus(std::span<const Item> items) noexcept;

struct StagingRule {
  DataPath path = DataPath::as_placed;
  DecidedBy decided_by = DecidedBy::inputs;
  const Communicator* communicator = nullptr;  ///< of a broadcast, whose views say nothing of its replicas' GPUs
};

/// One call's way of staging.
class Staging {
 public:
  explicit Staging(const StagingRule& rule);

  [[nodiscard]] DeviceKind kind_of(const Item& item) const noexcept {
    return detail::kind_of(item, path_, decided_by_);
  }
  /// Whether a view of `item`, which goes between devices of that kind, is moved from or to where it lies.
  [[nodiscard]] bool is_there(Device place, const Item& item, DeviceKind kind) const noexcept;
  /// Whether the items do not all go one way, or a view is not moved from or to where it lies.
  [[nodiscard]] bool is_needed(std::span<const Item> items) const noexcept;
  /// Where copies for `item` are made.
  [[nodiscard]] Device place_of(const Item& item, DeviceKind kind) const noexcept;

 private:
  DataPath path_;
  DecidedBy decided_by_;
  std::vector<int> gpus_;  // where a broadcast's views may be; none: on any
};

/// Items that all go between devices of one kind. Views that lie elsewhere have a copy there, made when their item is
/// added; the results are copied to where they are wanted by `finish`. The views given must live until then.
class StagedItems {
 public:
  /// With room for `items`.
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
  // reserved: items refer to them
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<Item> items_;
  std::vector<Tensor> copies_;
  std::vector<Return> returns_;
};

/// `call(items)`, with copies in place of views that lie elsewhere; where some items go between GPUs and some through
/// host memory one call for those, then one for these. Costs a look at every view where all are in host memory.
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
