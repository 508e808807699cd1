// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the numbers of rows that the senders and receivers of an all_to_all_v pass. The descriptors cannot contain
// these numbers, since no rank knows all of them.
//
// Each rank sends every other rank the numbers of rows that it has for the replicas of that rank (P-1 messages of 8
// bytes per item and pair of replicas). Each rank compares the numbers that it receives with the numbers that it
// expects. Then dissemination (ceil(log2 P) messages per rank) spreads the lowest difference that any rank has found,
// so that all ranks have the same result before a row moves.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/control_message.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/engine/transfers.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Called under the engine's lock.
class RowAgreement {
 public:
  /// `layout` and `items` must outlive this object.
  RowAgreement(const ReplicaLayout& layout, int rank, std::span<const HostItem> items)
      : layout_(layout), rank_(rank), items_(items) {}

  void start(Transport& transport, Workspace& workspace, Transfers& transfers);
  /// Makes progress without waiting. Returns whether the result is known.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace, Transfers& transfers);
  /// The lowest difference as a failure, the same on every rank; empty if there is no difference.
  [[nodiscard]] std::optional<Failure> failure() const;

 private:
  /// A case in which one replica sends another a number of rows that differs from the expected number. Differences are
  /// ordered by source, target and item.
  struct Difference {
    std::int32_t source = -1;  ///< replica; -1: no difference
    std::int32_t target = -1;
    std::uint32_t item = 0;
    std::int64_t sent = 0;
    std::int64_t expected = 0;
  };

  void compare(int source, const std::byte* sent);
  void note(const Difference& difference);
  void send(Transport& transport, Workspace& workspace, Transfers& transfers);

  const ReplicaLayout& layout_;
  int rank_;
  std::span<const HostItem> items_;
  std::vector<const std::byte*> received_from_;  // by rank: address of the numbers that the rank has sent
  bool is_compared_ = false;
  int round_ = 0;
  const std::byte* received_ = nullptr;  // address of the difference that is received in this round
  Difference lowest_;
};

}  // namespace lockstep::detail
