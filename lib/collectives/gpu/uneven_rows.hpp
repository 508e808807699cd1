// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of an all_to_all_v on GPUs, which each rank knows of its own replicas alone: all ranks agree on them as on
// hosts, and guests tell theirs to the leaders of their GPUs, who move them. Nothing moves before.

#pragma once

#include "collectives/engine/row_agreement.hpp"
#include "collectives/engine/transfers.hpp"
#include "collectives/gpu/group.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep::detail {

/// Driven under the engine's lock.
class UnevenRows {
 public:
  /// Both outlive it, and `items` stay where they are.
  UnevenRows(const GpuGroup& group, std::vector<HostItem>& items);

  void start(Transport& transport, Workspace& workspace);
  /// Moves on without waiting; whether it is over. Then each of the items has the parts of this rank's guests behind
  /// those of the local replicas, by GpuGroup::place_of; or there is a failure.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace);
  /// Senders and receivers differ: the same on every rank. Null when all is well.
  [[nodiscard]] const Failure* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] std::vector<int> awaited_ranks() const { return transfers_.awaited_ranks(); }
  /// Messages that are still under way belong to this epoch: they take none of the next one's.
  void abandon(Transport& transport) noexcept { static_cast<void>(transfers_.abandon(transport)); }

 private:
  [[nodiscard]] std::size_t message_bytes(const Guest& guest) const;
  void tell(Transport& transport, Workspace& workspace, const Guest& guest);
  void take(const Guest& guest, const std::byte* next);

  const GpuGroup& group_;
  std::vector<HostItem>& items_;
  RowAgreement agreement_;
  Transfers transfers_;
  std::vector<const std::byte*> heard_;  // by guest, as Leaders has them; null where another rank leads
  bool is_agreed_ = false;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::detail
