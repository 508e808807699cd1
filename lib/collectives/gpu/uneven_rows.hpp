// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of an all_to_all_v on GPUs. Each rank knows only those of its own replicas: all ranks agree on them as on
// hosts, and proxy clients send theirs to their proxies, which move the data. No data moves before that.

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
  /// Makes progress without waiting; whether it is over. Then each item has the parts of this rank's proxy clients
  /// after those of the local replicas, by GpuGroup::place_of; or there is a failure.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace);
  /// Set if senders and receivers name different rows: the same on every rank. Else null.
  [[nodiscard]] const Failure* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] std::vector<int> awaited_ranks() const { return transfers_.awaited_ranks(); }
  /// Receives that are still pending belong to this epoch: they cannot take messages of the next.
  void abandon(Transport& transport) noexcept { static_cast<void>(transfers_.abandon(transport)); }

 private:
  [[nodiscard]] std::size_t message_bytes(const ProxiedRank& client) const;
  void send_rows(Transport& transport, Workspace& workspace, const ProxiedRank& client);
  void read_rows(const ProxiedRank& client, const std::byte* next);

  const GpuGroup& group_;
  std::vector<HostItem>& items_;
  RowAgreement agreement_;
  Transfers transfers_;
  std::vector<const std::byte*> received_;  // by proxied rank, as in Leaders; null if another rank is the proxy
  bool is_agreed_ = false;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::detail
