// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One end of a message from one rank to another: a list of tensors, one after the other.
///
/// Through the transport, a message is one transfer, which starts when both ranks have agreed. A transfer by number
/// uses the memory of a single tensor itself. Any other transfer begins with a word that says whether valid data
/// follows: if the sender times out before it gets the acceptance, it still makes the transfer, without valid data,
/// since these transfers match in order.
class PairOperation final : public Operation {
 public:
  enum class Role : std::uint8_t { send, receive };

  /// Each of `items` has one input (send) or one output (receive). `copies` has the host copies of tensors on GPUs;
  /// null if no tensor is on a GPU.
  PairOperation(const Descriptor& descriptor, Role role, int peer, std::vector<HostItem> items,
                std::unique_ptr<HostCopies> copies = nullptr);

  [[nodiscard]] Role role() const noexcept { return role_; }
  [[nodiscard]] int peer() const noexcept { return peer_; }

  /// Called when it is posted, as send or receive `number` with the other rank.
  void restart(std::int64_t number) noexcept {
    number_ = number;
    has_begun_delivery_ = false;
  }
  [[nodiscard]] std::int64_t number() const noexcept { return number_; }

  // Through the memory of the node. A byte has the same offset on both ranks.

  /// Size of the data.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The data of a send if it is in one piece; null otherwise.
  [[nodiscard]] const void* only_input() const noexcept;
  /// Copies the bytes of the tensors from `offset` on.
  void pack(std::size_t offset, std::span<std::byte> to) const noexcept;
  void unpack(std::size_t offset, std::span<const std::byte> from) const noexcept;
  /// Called when all data is in the tensors, or in their host copies. If it throws std::bad_alloc, it is called again.
  void deliver();
  /// Whether `deliver` has succeeded. Copies to GPUs may still be in progress.
  [[nodiscard]] bool has_begun_delivery() const noexcept { return has_begun_delivery_; }
  /// Whether the data has been delivered, also to GPUs.
  [[nodiscard]] bool is_delivered() const { return has_begun_delivery_ && (copies_ == nullptr || copies_->is_done()); }

  // Through the transport.

  void start(Transport& transport, Workspace& workspace) override;
  /// Unless transfers have numbers: called instead of `start` if a send of `bytes` bytes of data has failed: makes the
  /// transfer, without valid data, in `buffer`.
  [[nodiscard]] static Transfer start_void(Transport& transport, Workspace& workspace, int target, std::size_t bytes,
                                           Buffer& buffer);
  /// Leaves `transfer` and the buffer that it uses to `transport`. Leaks the buffer if an allocation fails.
  static void leave(Transport& transport, Transfer transfer, Buffer&& buffer) noexcept;
  /// Stays false if the transfer had no valid data: a control message with the reason ends the operation.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace) override;
  [[nodiscard]] std::vector<int> awaited_ranks() const override { return {peer_}; }
  [[nodiscard]] bool abandon(Transport& transport) noexcept override;
  [[nodiscard]] bool is_reusable() const noexcept override { return copies_ == nullptr; }

 private:
  [[nodiscard]] std::span<std::byte> message() const;
  void start_by_number(Transport& transport, Workspace& workspace);

  Role role_;
  int peer_;
  std::unique_ptr<HostCopies> copies_;
  std::vector<HostItem> items_;
  std::size_t bytes_;
  std::int64_t number_ = -1;
  Buffer buffer_;
  Transfer transfer_{};
  bool is_under_way_ = false;
  bool is_by_number_ = false;
  bool has_begun_delivery_ = false;
};

}  // namespace lockstep::detail
