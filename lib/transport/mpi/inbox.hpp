// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The messages of one end of a group, as MPI carries them.

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

/// The first bytes of a message on the wire. MPI may reuse the context of a freed communicator for the next one while a
/// message of the old one is in flight: each transport has a number, and ignores messages with another number.
struct WireHead {
  std::uint64_t number;
  std::uint64_t is_last;  ///< of its sender
};

/// Receives the messages to one rank; their sources are ranks of `comm`. Called with `mpi::serialize()` held.
class Inbox {
 public:
  /// `comm` must outlive it.
  Inbox(MPI_Comm comm, int tag, std::uint64_t number);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  [[nodiscard]] std::optional<ReceivedMessage> poll();
  /// The number of last messages that have been received.
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
  std::array<std::unique_ptr<Incoming>, 2> incoming_;  // the first one is being received, the other one was returned
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// What an end that is closed has of MPI. It is freed when the last messages of `last_messages` ranks have been
/// received: a message that MPI receives for a communicator that is freed is lost, or disturbs the next one with the
/// same context or tags.
struct ClosedEnd {
  std::shared_ptr<Context> context;
  int slot = 0;  ///< of its tags
  std::unique_ptr<Inbox> inbox;
  int last_messages = 0;
};
/// Keeps `end` as long as necessary. Called without `mpi::serialize()`.
void free_when_silent(ClosedEnd&& end);
/// Frees the ends that have become silent. Called whenever an end is made, without `mpi::serialize()`.
void free_silent_ends();

}  // namespace lockstep::detail
