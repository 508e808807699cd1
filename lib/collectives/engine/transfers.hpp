// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The pending transfers of one operation, and their buffers.

#pragma once

#include "collectives/engine/open_transfers.hpp"
#include "collectives/engine/operation.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Data is received into, and sent from, buffers of the engine. So after a rank has abandoned the operation, no late
/// message touches the user's memory. Called under the engine's lock.
class Transfers {
 public:
  /// A new buffer with unspecified contents, valid until `release` or `abandon`.
  [[nodiscard]] std::span<std::byte> new_buffer(Workspace& workspace, std::size_t bytes);
  /// Starts to receive `bytes` bytes from `source`; returns the address of the buffer that gets them.
  const std::byte* receive(Transport& transport, Workspace& workspace, int source, std::size_t bytes);
  /// Starts to send `data`, which must be in a buffer of this object.
  void send(Transport& transport, int target, std::span<const std::byte> data);

  [[nodiscard]] bool all_received(Transport& transport);
  [[nodiscard]] bool all_sent(Transport& transport);
  /// Ranks from which this rank still awaits data.
  [[nodiscard]] std::vector<int> awaited_ranks() const;

  /// Called when all data is received and sent: returns the buffers to `workspace`.
  void release(Workspace& workspace);
  /// Leaves the pending transfers and the buffers to the transport. Leaks the buffers if there is no memory for that.
  void abandon(Transport& transport) noexcept;

 private:
  std::vector<Buffer> buffers_;
  OpenTransfers receives_;  // numbered by source
  OpenTransfers sends_;     // numbered by target
};

}  // namespace lockstep::detail
