// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the numbers of rows that senders and receivers of an all_to_all_v give. No rank knows all of them, so the
// descriptors cannot.
//
// Each rank sends each other rank the numbers of rows that it has for it (P-1 messages of 8 bytes per item and pair of
// replicas), and compares the numbers that it receives with those that it expects. Then the lowest difference that any
// rank has found is spread by dissemination (ceil(log2 P) messages): all ranks reach one result, before a row moves.

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
  /// Makes progress without waiting; whether the result is known.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace, Transfers& transfers);
  /// The difference, if there is one; the same on every rank.
  [[nodiscard]] std::optional<Failure> failure() const;

 private:
  /// One replica sends another a number of rows that differs from the expected one. Lower pairs come first.
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
  std::vector<const std::byte*> received_from_;  // by rank: the place of its numbers
  bool is_compared_ = false;
  int round_ = 0;
  const std::byte* received_ = nullptr;  // the place of this round's difference
  Difference lowest_;
};

}  // namespace lockstep::detail
