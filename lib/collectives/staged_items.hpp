// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Items whose views lie partly on GPUs and partly in host memory, as calls that a communicator takes: all views of a
// call in one kind of place. For collectives that give every output the same.

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
enum class Route : std::uint8_t {
  as_placed,  ///< between GPUs where all views that decide lie on some, else through host memory
  host,       ///< through host memory
};

/// RING is through host memory.
[[nodiscard]] inline Route route_of(const CommunicationOptions& options) noexcept {
  return options.implementation == CommunicationImplementation::ring ? Route::host : Route::as_placed;
}

/// The views that decide: those that every rank has.
enum class DecidedBy : std::uint8_t { inputs, outputs };

/// Where an item goes.
[[nodiscard]] DeviceKind kind_of(const Item& item, Route route, DecidedBy decided_by) noexcept;

/// Whether the items do not all go one way, or a view lies elsewhere than its item goes.
[[nodiscard]] bool needs_staging(std::span<const Item> items, Route route, DecidedBy decided_by) noexcept;

/// Items that all go between devices of one kind. Views that lie elsewhere have a copy there, made when their item is
/// added; the results are copied to where they are wanted by `finish`. The views given must live until then.
class StagedItems {
 public:
  /// With room for `items`.
  StagedItems(std::span<const Item> items, DecidedBy decided_by);
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
  void add_outputs(const Item& item, Device place);

  DecidedBy decided_by_;
  // reserved: items refer to them
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<Item> items_;
  std::vector<Tensor> copies_;
  std::vector<Return> returns_;
};

/// `call(items)`, with copies in place of views that lie elsewhere; where some items go between GPUs and some through
/// host memory one call for those, then one for these. Costs a look at every view where nothing is elsewhere.
template <class Call>
void with_staged(std::span<const Item> items, Route route, DecidedBy decided_by, const Call& call) {
  if (!needs_staging(items, route, decided_by)) return call(items);
  for (const DeviceKind kind : {DeviceKind::gpu, DeviceKind::cpu}) {
    StagedItems staged(items, decided_by);
    for (const Item& item : items) {
      if (kind_of(item, route, decided_by) == kind) staged.add(item, kind);
    }
    if (staged.items().empty()) continue;
    call(staged.items());
    staged.finish();
  }
}

}  // namespace lockstep::detail
