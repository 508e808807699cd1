// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The transfers of one operation under way, and their buffers.

#pragma once

#include "collectives/engine/open_transfers.hpp"
#include "collectives/engine/operation.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Data is received into buffers of the engine, and staged there to be sent: after a rank has abandoned the operation,
/// no late message touches the user's memory. Driven under the engine's lock.
class Transfers {
 public:
  /// A buffer that stays until `release` or `abandon`, contents unspecified.
  [[nodiscard]] std::span<std::byte> new_buffer(Workspace& workspace, std::size_t bytes);
  /// Starts to receive `bytes` bytes from `source`; returns their place.
  const std::byte* receive(Transport& transport, Workspace& workspace, int source, std::size_t bytes);
  /// Starts to send `data`, which is in a buffer of this object.
  void send(Transport& transport, int target, std::span<const std::byte> data);

  [[nodiscard]] bool all_received(Transport& transport);
  [[nodiscard]] bool all_sent(Transport& transport);
  /// Ranks whose data is missing.
  [[nodiscard]] std::vector<int> awaited_ranks() const;

  /// All is received and sent: gives the buffers back.
  void release(Workspace& workspace);
  /// Leaves what is under way, and the buffers, to the transport.
  void abandon(Transport& transport) noexcept;

 private:
  std::vector<Buffer> buffers_;
  OpenTransfers receives_;  // with their sources
  OpenTransfers sends_;     // with their targets
};

}  // namespace lockstep::detail
