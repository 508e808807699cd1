// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The messages of one operation under way, and the memory that they lie in.

#pragma once

#include "collectives/engine/operation.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Receives land in memory of the engine, and what is sent is staged there: a rank that gives up leaves no user's
/// memory to a late message. Driven under the engine's lock.
class Transfers {
 public:
  /// A buffer that stays until `release` or `abandon`, contents unspecified.
  [[nodiscard]] std::span<std::byte> new_buffer(Workspace& workspace, std::size_t bytes);
  /// Starts to receive `bytes` bytes from `source`; where they will lie.
  const std::byte* receive(Transport& transport, Workspace& workspace, int source, std::size_t bytes);
  /// Starts to send `data`, which lies in a buffer of this object.
  void send(Transport& transport, int target, std::span<const std::byte> data);

  [[nodiscard]] bool all_received(Transport& transport);
  [[nodiscard]] bool all_sent(Transport& transport);
  /// Those whose data is missing.
  [[nodiscard]] std::vector<int> awaited_ranks() const;

  /// All is received and sent: the buffers go back.
  void release(Workspace& workspace);
  /// Puts the buffers into quarantine; whether a message was still under way.
  [[nodiscard]] bool abandon(Transport& transport) noexcept;

 private:
  struct Receive {
    Transfer transfer;
    int source;
  };

  std::vector<Buffer> buffers_;
  std::vector<Receive> receives_;
  std::vector<Transfer> sends_;
};

}  // namespace lockstep::detail
