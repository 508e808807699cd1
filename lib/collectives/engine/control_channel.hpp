// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The control messages of one rank, indexed by sender and kind; those of earlier epochs are dropped.

#pragma once

#include "collectives/engine/control_message.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe: the engine calls under its lock.
class ControlChannel {
 public:
  explicit ControlChannel(Transport& transport);

  /// Takes all messages that have arrived.
  void poll();

  void send_header(int target, std::uint64_t epoch, std::int64_t sequence, std::uint32_t round, const Summary& summary);
  /// To all ranks: this one waits in operation `sequence`.
  void send_heartbeat(std::uint64_t epoch, std::int64_t sequence);
  /// To all ranks: this one, whose next operation is `sequence`, waits in another communicator, in `what`.
  void send_status(std::uint64_t epoch, std::int64_t sequence, const std::string& what);
  /// To all ranks: this one aborts `epoch` at operation `sequence` because of `failure`.
  void send_abort(std::uint64_t epoch, std::int64_t sequence, const Failure& failure);

  /// Sends one rank a message about a send and receive between the two.
  void send_to(int target, const ControlMessage& control);
  struct PairMessage {
    int source;
    ControlMessage message;
  };
  [[nodiscard]] bool has_pair_messages() const noexcept { return !pair_messages_.empty(); }
  /// The next message about a send and receive between its sender and this rank.
  [[nodiscard]] std::optional<PairMessage> take_pair_message();

  /// The header that `source` sent for this round of this operation, if it has arrived.
  [[nodiscard]] std::optional<Summary> take_header(int source, std::uint64_t epoch, std::int64_t sequence,
                                                   std::uint32_t round);
  /// The failure with which a rank aborted `epoch` in operation `sequence` or before; null if none has. Operations that
  /// all ranks entered earlier are still completed.
  [[nodiscard]] const Failure* abort_record(std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether a header or heartbeat of this operation, or of a later one, has come from `rank`.
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether a heartbeat of this operation has come from any rank.
  [[nodiscard]] bool has_heartbeat(std::uint64_t epoch, std::int64_t sequence) const;
  /// The operation of another communicator in which `rank` waits instead of coming to this one; empty if not known.
  [[nodiscard]] std::string_view status(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// The last operation in which `rank` was heard of; -1 if none.
  [[nodiscard]] std::int64_t last_sequence(int rank) const;

  /// Drops what belongs to epochs before `epoch`.
  void enter_epoch(std::uint64_t epoch);

 private:
  struct Peer {
    std::deque<ControlMessage> headers;
    std::uint64_t seen_epoch = 0;
    std::int64_t seen_sequence = -1;
    std::uint64_t heartbeat_epoch = 0;
    std::int64_t heartbeat_sequence = -1;
    std::uint64_t status_epoch = 0;
    std::int64_t status_sequence = -1;
    std::string status;
  };

  void send_to_all(const ControlMessage& control);
  void note_abort(const ControlMessage& control);

  Transport& transport_;
  std::uint64_t epoch_ = 0;
  std::vector<Peer> peers_;
  std::deque<PairMessage> pair_messages_;
  struct Abort {
    std::int64_t sequence;
    Failure failure;
  };
  std::map<std::uint64_t, Abort> aborts_;  // by epoch: the abort of lowest sequence
};

}  // namespace lockstep::detail
