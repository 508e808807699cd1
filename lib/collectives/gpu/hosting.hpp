// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A leader's part in one operation for one guest: what the guest gives counts as the leader's own.

#pragma once

#include "collectives/call/pinned_block.hpp"
#include "collectives/gpu/guest_message.hpp"
#include "transport/transport.hpp"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Memory on a lane's GPU that lives as long as the operation.
using TakeScratch = std::function<void*(std::size_t lane, std::size_t bytes)>;

/// Of one guest of a GPU that this rank leads. Driven under the engine's lock; `group` outlives it.
class Hosting {
 public:
  /// Throws Error(unavailable) when memory or CUDA fails.
  Hosting(const Descriptor& descriptor, const GpuGroup& group, const Guest& guest, std::span<const HostItem> items);

  void start(Transport& transport);
  /// Whether the guest's message is here.
  [[nodiscard]] bool has_come(Transport& transport);
  /// Puts the guest's inputs, and room for the results that it wants, on the lane, behind those that `items` have.
  void admit(std::vector<HostItem>& items, const TakeScratch& scratch);
  /// Starts to copy the results to the host, behind what is on the lane.
  void fetch();
  /// After that: moves on; sends only if it `may_send`, since the messages between two ranks have an order.
  void advance(Transport& transport, bool may_send);
  [[nodiscard]] bool has_sent() const noexcept { return has_sent_; }
  /// Whether no message is under way any more.
  [[nodiscard]] bool is_over() const noexcept { return has_sent_ && !sending_; }
  /// What was on the lane has ended.
  void settle() noexcept;

 private:
  [[nodiscard]] std::span<std::byte> inputs() const { return block_.bytes().first(inputs_.bytes); }
  [[nodiscard]] std::span<std::byte> results() const { return block_.bytes().subspan(inputs_.bytes, results_.bytes); }
  [[nodiscard]] const Lane& lane() const { return *group_.lanes()[lane_]; }

  const Descriptor descriptor_;
  const GpuGroup& group_;
  const Guest& guest_;
  const std::size_t lane_;
  GuestMessage inputs_;
  GuestMessage results_;
  PinnedBlock block_;  // what is received, then what is sent
  const void* results_on_lane_ = nullptr;
  cuda::OwnedEvent fetched_;
  bool has_sent_ = false;
  std::optional<Transfer> receiving_;
  std::optional<Transfer> sending_;
};

}  // namespace lockstep::detail
