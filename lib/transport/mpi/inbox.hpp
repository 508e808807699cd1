// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Receives the messages of one endpoint of a group over MPI.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "transport/mpi/context.hpp"
#include "transport/transport.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace lockstep::detail {

/// The first bytes of a message on the wire. MPI may reuse the context id of a freed communicator for a new
/// communicator while a message of the freed communicator is in flight. So each transport has a number, and ignores
/// messages with another number.
struct WireHead {
  std::uint64_t number;
  std::uint64_t is_last;  ///< 1 if this is the last message of its sender, else 0
};

/// Receives the messages to one rank. Their sources are ranks of `comm`. The caller holds `mpi::serialize()`.
class Inbox {
 public:
  /// `comm` must outlive this object.
  Inbox(MPI_Comm comm, int tag, std::uint64_t number);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  /// Ignores messages with another number, and messages that are shorter than a WireHead, of which the first is logged.
  [[nodiscard]] std::optional<ReceivedMessage> poll();
  /// The number of received messages that have WireHead::is_last.
  [[nodiscard]] int last_messages() const noexcept { return last_messages_; }

 private:
  void start_receiving();

  MPI_Comm comm_;
  int tag_;
  std::uint64_t number_;
  int last_messages_ = 0;
  struct Incoming {
    WireHead head;
    std::array<std::byte, most_message_bytes> bytes;
  };
  std::array<std::unique_ptr<Incoming>, 2> incoming_;  // [0] is being received; `poll` has returned [1]
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// The MPI resources of a closed endpoint. They are freed after the last messages of `last_messages` ranks have been
/// received. If the communicator were freed earlier, a later message would be lost, or would disturb the next
/// communicator with the same context or tags.
struct ClosedEnd {
  std::shared_ptr<Context> context;
  int slot = 0;  ///< slot of the endpoint's tags
  std::unique_ptr<Inbox> inbox;
  int last_messages = 0;
};
/// Keeps `end` until its last messages have been received. Called without `mpi::serialize()`.
void free_when_silent(ClosedEnd&& end);
/// Frees the endpoints whose last messages have been received. Called whenever an endpoint is made, without
/// `mpi::serialize()`.
void free_silent_ends();

}  // namespace lockstep::detail
