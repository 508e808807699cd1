// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The control messages of one rank, indexed by sender and kind; those of earlier epochs are dropped.

#pragma once

#include "collectives/engine/control_message.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The wait of this rank in an operation of another communicator.
struct WaitElsewhere {
  std::string operation;
  bool is_long = false;
};

/// Not thread-safe: the engine calls under its lock.
class ControlChannel {
 public:
  explicit ControlChannel(Transport& transport);

  /// Takes all messages that have arrived.
  void poll();

  /// `message` is an AgreementHeader and the data that travels with it.
  void send_header(int target, std::span<const std::byte> message) { transport_.post(target, message); }
  void send_summary(int target, std::uint64_t epoch, std::int64_t sequence, std::uint32_t round,
                    const Summary& summary);
  /// What a rank says that waits in an operation.
  struct Heartbeat {
    std::uint64_t progress = 0;  ///< DataProgress::count that it has seen
    int awaited = -1;            ///< a rank whose data it awaits; -1: none
    int traced = -1;             ///< a rank to which a debugger is attached; -1 if it knows none
  };
  /// To all ranks: this one waits in operation `sequence`.
  void send_heartbeat(std::uint64_t epoch, std::int64_t sequence, const Heartbeat& heartbeat);
  /// To the ranks that wait in operation `sequence`, which is this rank's next one: where this rank waits. Once for
  /// each of their heartbeats, and when a long wait follows another.
  void send_status(std::uint64_t epoch, std::int64_t sequence, const WaitElsewhere& wait);
  /// To all ranks: this one aborts `epoch` at operation `sequence` because of `failure`.
  void send_abort(std::uint64_t epoch, std::int64_t sequence, const Failure& failure);
  /// This rank does not take part in operations from `sequence` on. The last message to `target`.
  void send_leave(int target, std::uint64_t epoch, std::int64_t sequence, const Failure& failure);

  /// A rank that has told this one that it leaves.
  struct Left {
    int rank;
    std::string text;  ///< "rank 2 has exited"
  };
  [[nodiscard]] std::span<const Left> left_ranks() const noexcept { return left_ranks_; }

  /// Sends one rank a message about a send and receive between the two.
  void send_to(int target, const ControlMessage& control);
  struct PairMessage {
    int source;
    ControlMessage message;
  };
  [[nodiscard]] bool has_pair_messages() const noexcept { return !pair_messages_.empty(); }
  /// The next message about a send and receive between its sender and this rank.
  [[nodiscard]] std::optional<PairMessage> take_pair_message();

  struct Header {
    int source;
    AgreementHeader header;
    std::vector<std::byte> data;
  };
  /// The header that `source` sent for this round of this operation, if it has arrived.
  [[nodiscard]] std::optional<Header> take_header(int source, std::uint64_t epoch, std::int64_t sequence,
                                                  std::uint32_t round);
  [[nodiscard]] std::optional<Summary> take_summary(int source, std::uint64_t epoch, std::int64_t sequence,
                                                    std::uint32_t round);
  /// The failure with which a rank aborted `epoch` in operation `sequence` or before; null if none has. Operations that
  /// all ranks entered earlier are still completed.
  [[nodiscard]] const Failure* abort_record(std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether a header or heartbeat of this operation, or of a later one, has come from `rank`.
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether a heartbeat of this operation has come from any rank.
  [[nodiscard]] bool has_heartbeat(std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether one of this operation, or of a later one, has come from `rank` in this wait.
  [[nodiscard]] bool has_heartbeat_of(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// The rank whose data `rank` awaits, by such a heartbeat; -1 if there is none.
  [[nodiscard]] int awaited_by(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// This rank starts to wait anew: what it has heard until now does not tell which ranks respond. A heartbeat that
  /// says that data has moved on its sender starts a wait, too, of which it is the first.
  void begin_wait() noexcept { ++wait_; }
  /// The number of this wait.
  [[nodiscard]] std::uint64_t wait() const noexcept { return wait_; }
  /// Whether a heartbeat has come from any rank in this wait.
  [[nodiscard]] bool has_heard() const noexcept { return heard_in_ == wait_; }
  /// Number of heartbeats that said that data has moved since the one before, or that a debugger is attached to a rank.
  [[nodiscard]] std::uint64_t progress_heard() const noexcept { return progress_heard_; }
  /// The operation of another communicator in which `rank` waits instead of coming to this one; empty if not known.
  [[nodiscard]] std::string_view status(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// The last operation in which `rank` was heard of; -1 if none.
  [[nodiscard]] std::int64_t last_sequence(int rank) const;

  /// Drops what belongs to epochs before `epoch`.
  void enter_epoch(std::uint64_t epoch);

 private:
  struct Peer {
    std::uint64_t seen_epoch = 0;
    std::int64_t seen_sequence = -1;
    std::uint64_t heartbeat_epoch = 0;
    std::int64_t heartbeat_sequence = -1;
    std::uint32_t heartbeat_progress = 0;
    std::uint64_t heartbeat_wait = 0;
    int awaited = -1;
    bool knows_status = false;
    std::uint64_t status_epoch = 0;
    std::int64_t status_sequence = -1;
    std::string status;
  };

  struct SummaryMessage {
    int source;
    ControlMessage header;
  };
  [[nodiscard]] const Peer& peer(int rank) const;
  void send_to_all(const ControlMessage& control);
  void note_heartbeat(Peer& peer, const ControlMessage& control);
  void note_abort(const ControlMessage& control);

  Transport& transport_;
  /// Epoch and sequence of the latest operation of which a heartbeat has come from any rank.
  std::pair<std::uint64_t, std::int64_t> latest_heartbeat_{0, -1};
  std::uint64_t epoch_ = 0;
  std::uint64_t progress_heard_ = 0;
  std::uint64_t wait_ = 1;
  std::uint64_t heard_in_ = 0;  // the wait of the last heartbeat
  std::string long_wait_;       // the last one; the peers that know it are marked
  std::map<int, Peer> peers_;   // those that have been heard of
  // of this epoch or a later one; a rank is at most one operation ahead of those that wait for it
  std::vector<Header> headers_;
  std::vector<SummaryMessage> summaries_;
  std::deque<PairMessage> pair_messages_;
  std::vector<Left> left_ranks_;
  struct Abort {
    std::int64_t sequence;
    Failure failure;
  };
  std::map<std::uint64_t, Abort> aborts_;  // by epoch: the abort of lowest sequence
};

}  // namespace lockstep::detail
