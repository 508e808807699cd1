// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One end of a message from one rank to another: a list of tensors in one transfer.

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::detail {

/// Started when both ends agree. The transfer begins with a word that says whether the rest is valid: an accepted
/// transfer is sent even if the sender has timed out meanwhile, since the transfers of a pair are matched in order.
class PairOperation final : public Operation {
 public:
  enum class Role : std::uint8_t { send, receive };

  /// `items` have one input each (send), or one output (receive); `copies` stand for those on GPUs, if there are any.
  PairOperation(const Descriptor& descriptor, Role role, int peer, std::vector<HostItem> items,
                std::unique_ptr<HostCopies> copies = nullptr);

  [[nodiscard]] Role role() const noexcept { return role_; }
  [[nodiscard]] int peer() const noexcept { return peer_; }

  void start(Transport& transport, Workspace& workspace) override;
  /// Instead of `start`: sends the word for "no data follows". The tensors are not read.
  void start_void(Transport& transport, Workspace& workspace);
  /// Stays false if there was no data: a control message has the reason.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace) override;
  [[nodiscard]] std::vector<int> awaited_ranks() const override { return {peer_}; }
  [[nodiscard]] bool abandon(Transport& transport) noexcept override;

 private:
  [[nodiscard]] std::span<std::byte> message() const { return buffer_.first(bytes_); }
  void unpack() const;

  Role role_;
  int peer_;
  std::unique_ptr<HostCopies> copies_;
  std::vector<HostItem> items_;
  std::size_t bytes_;
  Buffer buffer_;
  Transfer transfer_{};
  bool is_under_way_ = false;
  bool is_unpacked_ = false;
};

}  // namespace lockstep::detail
