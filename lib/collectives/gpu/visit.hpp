// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A guest's part in one operation: its inputs go to the leader of the GPU, its results come from there.

#pragma once

#include "collectives/call/pinned_block.hpp"
#include "collectives/gpu/guest_message.hpp"
#include "transport/transport.hpp"

#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Of one GPU that another rank leads. Driven under the engine's lock; `group` outlives it.
class Visit {
 public:
  /// Throws Error(unavailable) when memory or CUDA fails.
  Visit(const Descriptor& descriptor, const GpuGroup& group, const Guest& guest, std::span<const HostItem> items);

  /// Starts to copy the inputs to the host, on lanes that the replicas' streams hold back.
  void start(Transport& transport);
  /// Moves on; sends only if it `may_send`, since the messages between two ranks have an order.
  void advance(Transport& transport, bool may_send);
  [[nodiscard]] bool has_sent() const noexcept { return has_sent_; }
  /// Whether no message is under way and the results' copies are on the lane.
  [[nodiscard]] bool is_over() const noexcept { return has_sent_ && !sending_ && !receiving_; }
  /// What was on the lanes has ended.
  void settle() noexcept;

 private:
  struct Copy {
    void* target;
    const void* source;
    std::size_t bytes;
    std::size_t lane;
  };
  void list_inputs(const GuestMessage& message, std::span<const HostItem> items);
  void list_results(const GuestMessage& message, std::span<const HostItem> items);
  [[nodiscard]] std::span<std::byte> inputs() const { return block_.bytes().first(sent_bytes_); }
  [[nodiscard]] std::span<std::byte> results() const { return block_.bytes().subspan(sent_bytes_); }

  const GpuGroup& group_;
  const int leader_rank_;
  const std::size_t lane_;
  std::size_t sent_bytes_ = 0;
  PinnedBlock block_;  // what is sent, then what is received
  std::vector<Copy> fetches_;
  std::vector<Copy> deliveries_;
  cuda::OwnedEvent fetched_;
  bool has_sent_ = false;
  std::optional<Transfer> sending_;
  std::optional<Transfer> receiving_;
};

}  // namespace lockstep::detail
