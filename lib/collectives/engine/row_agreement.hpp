// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Do senders and receivers of an all_to_all_v name the same numbers of rows? No rank knows all of them, so the
// descriptors cannot say.
//
// Each rank tells each other what it sends there (P-1 messages of 8 bytes per item and pair of replicas), and compares
// what it hears with what it expects. Then the lowest difference that anybody found goes round by dissemination
// (ceil(log2 P) messages): all ranks draw one conclusion, before a row moves.

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

/// Driven under the engine's lock.
class RowAgreement {
 public:
  /// All must outlive it.
  RowAgreement(const ReplicaLayout& layout, int rank, std::span<const HostItem> items)
      : layout_(layout), rank_(rank), items_(items) {}

  void start(Transport& transport, Workspace& workspace, Transfers& transfers);
  /// Moves on without waiting; whether the conclusion is drawn.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace, Transfers& transfers);
  /// The conclusion; none when all is well. The same on every rank.
  [[nodiscard]] std::optional<Failure> failure() const;

 private:
  /// Rows that one replica sends to another, which expects others. Lower pairs come first.
  struct Difference {
    std::int32_t source = -1;  ///< replica; -1: there is none
    std::int32_t target = -1;
    std::uint32_t item = 0;
    std::int64_t sent = 0;
    std::int64_t expected = 0;
  };

  void compare(int source, const std::byte* sent);
  void note(const Difference& difference);
  void tell(Transport& transport, Workspace& workspace, Transfers& transfers);

  const ReplicaLayout& layout_;
  int rank_;
  std::span<const HostItem> items_;
  std::vector<const std::byte*> heard_from_;  // by rank: where its numbers will lie
  bool is_compared_ = false;
  int round_ = 0;
  const std::byte* heard_ = nullptr;  // where the difference of this round will lie
  Difference lowest_;
};

}  // namespace lockstep::detail
