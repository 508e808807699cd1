// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The control messages that one rank sends and receives. Received messages are indexed by sender and kind; messages of
// earlier epochs are dropped, except heartbeats, whose senders may wait for other ranks, and messages that report the
// loss of the communicator.

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
  std::vector<int> awaited = {};  ///< the ranks of that communicator for which it waits; only the first ones are sent
};

/// Not thread-safe: called under the engine's lock.
class ControlChannel {
 public:
  explicit ControlChannel(Transport& transport);

  /// Receives all messages that have arrived. If an allocation fails, throws std::bad_alloc; the next call goes on with
  /// the same message.
  void poll();
  /// As `poll`, for one message. Returns false if none has arrived.
  bool poll_one();
  /// This rank abandons the operation that ends the epoch: a rank whose heartbeat of this epoch arrives from now on is
  /// told, by the first `poll` of the next epoch, how the epoch has ended.
  void begin_abandoning() noexcept { is_abandoning_ = true; }

  /// `message` is an AgreementHeader, followed by the data that travels with the agreement.
  void send_header(int target, std::span<const std::byte> message) { transport_.post(target, message); }
  void send_summary(int target, std::uint64_t epoch, std::int64_t sequence, std::uint32_t round,
                    const Summary& summary);
  /// The content of a heartbeat. A rank that waits in an operation sends heartbeats.
  struct Heartbeat {
    std::uint64_t progress = 0;     ///< DataProgress::count of the sender
    std::vector<int> awaited = {};  ///< the ranks for which the sender waits; only the first ones are sent
    int traced = -1;                ///< a rank to which a debugger is attached; -1: none is known
    bool is_probe = false;          ///< a rank that gets it sends a heartbeat, too
  };
  /// Tells all other ranks that this rank waits in operation `sequence`.
  void send_heartbeat(std::uint64_t epoch, std::int64_t sequence, const Heartbeat& heartbeat);
  /// Sends `wait`, the wait of this rank in an operation of another communicator, to the ranks that wait in operation
  /// `sequence`, the next operation of this rank, or in a later epoch. Each of these ranks gets one such message per
  /// heartbeat that it has sent, and another one when a wait becomes long.
  void send_status(std::uint64_t epoch, std::int64_t sequence, const WaitElsewhere& wait);
  /// Tells all other ranks that this rank aborts `epoch`.
  void send_abort(std::uint64_t epoch, const EpochEnd& end) { send_to_all(abort_message(epoch, end)); }
  /// Tells all other ranks that the process of `rank`, of this rank's node, has ended: `text`. This rank waits in
  /// operation `sequence`.
  void send_death(std::uint64_t epoch, std::int64_t sequence, int rank, const std::string& text);
  /// Tells `target` that this rank takes part in no operation from `end.sequence` on. This is the last message to
  /// `target`. If `target` may not have heard how earlier epochs have ended, tells this, too.
  void send_leave(int target, std::uint64_t epoch, const EpochEnd& end);

  /// A rank that takes no further part, according to a message.
  struct Gone {
    int rank;
    bool has_left;     ///< the rank has said so itself; else a rank of its node, which has seen the end of its process
    std::string text;  ///< "rank 2 has exited"
    std::uint64_t epoch;  ///< the rank has arrived at all operations before this one
    std::int64_t sequence;
  };
  [[nodiscard]] std::span<const Gone> gone_ranks() const noexcept { return gone_ranks_; }

  /// Sends `control` to `target`.
  void send_to(int target, const ControlMessage& control);
  /// `message` is an offer, followed by the data of the send.
  void send_offer(int target, std::span<const std::byte> message) { transport_.post(target, message); }
  /// A message about a send of one rank to another and the matching receive.
  struct PairMessage {
    int source;
    ControlMessage message;
    std::vector<std::byte> data = {};  // of a send, with its offer
  };
  [[nodiscard]] bool has_pair_messages() const noexcept { return !pair_messages_.empty(); }
  /// The PairMessage that arrived first; null if there is none. It stays until `drop_pair_message`, so that it is not
  /// lost if an allocation fails.
  [[nodiscard]] PairMessage* pair_message() noexcept {
    return pair_messages_.empty() ? nullptr : &pair_messages_.front();
  }
  void drop_pair_message() noexcept {
    if (pair_messages_.front().message.kind == ControlKind::withdrawal) --withdrawals_;
    pair_messages_.pop_front();
  }
  /// Whether the withdrawal of send `number` of `source` has arrived, and is still there.
  [[nodiscard]] bool has_withdrawal(int source, std::int64_t number) const;

  struct Header {
    int source;
    AgreementHeader header;
    std::vector<std::byte> data;
  };
  /// Removes and returns the header of `source` for this round of this operation; empty if it has not arrived.
  [[nodiscard]] std::optional<Header> take_header(int source, std::uint64_t epoch, std::int64_t sequence,
                                                  std::uint32_t round);
  [[nodiscard]] std::optional<Summary> take_summary(int source, std::uint64_t epoch, std::int64_t sequence,
                                                    std::uint32_t round);
  /// The failure with which a rank aborted `epoch` at operation `sequence` or at an earlier one; null if no rank has.
  /// Operations before the aborted one are still completed, since the aborting rank has taken part in them.
  [[nodiscard]] const Failure* abort_record(std::uint64_t epoch, std::int64_t sequence) const;
  /// The first failure by which another rank has lost the communicator in an epoch that has ended here; empty if there
  /// is none.
  [[nodiscard]] const std::optional<Failure>& late_loss() const noexcept { return late_loss_; }
  /// Whether a header, summary or heartbeat of this operation, or of a later operation, has arrived from `rank`.
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether a heartbeat of this operation, or of a later one of `epoch`, has arrived from any rank.
  [[nodiscard]] bool has_heartbeat(std::uint64_t epoch, std::int64_t sequence) const noexcept {
    return latest_heartbeat_.first == epoch && latest_heartbeat_.second >= sequence;
  }
  /// Epoch and sequence number of the latest operation of which a heartbeat has arrived from any rank.
  [[nodiscard]] std::pair<std::uint64_t, std::int64_t> latest_heartbeat() const noexcept { return latest_heartbeat_; }
  /// Which heartbeats count.
  enum class Since : std::uint8_t { wait, probe };
  /// Whether a heartbeat of this operation or of a later one has arrived from `rank` in this wait (see begin_wait), or
  /// since the last probe of this rank.
  [[nodiscard]] bool has_heartbeat_of(int rank, std::uint64_t epoch, std::int64_t sequence,
                                      Since since = Since::wait) const;
  /// Called when this rank begins to wait in an operation: from now on, `responds` counts heartbeats of earlier
  /// operations, also those of earlier epochs.
  void begin_operation() noexcept {
    ++operation_;
    is_probed_ = false;  // a heartbeat of this operation or of a later one asks as well
  }
  /// Whether the last heartbeat of `rank` is of an epoch before `epoch`.
  [[nodiscard]] bool is_in_earlier_epoch(int rank, std::uint64_t epoch) const {
    return peer(rank).heartbeat_epoch < epoch;
  }
  /// Whether `rank` waits in an operation of `epoch` or of an earlier epoch: its last heartbeat has arrived in this
  /// wait, and is of operation `sequence` or a later one, or it has arrived since this rank began to wait in
  /// `sequence`. An older heartbeat of an earlier operation says nothing: the rank may have completed that operation.
  [[nodiscard]] bool responds(int rank, std::uint64_t epoch, std::int64_t sequence, Since since = Since::wait) const;
  /// The ranks for which `rank` waits, according to its last heartbeat, if it responds and is not in a later operation.
  [[nodiscard]] std::span<const int> awaited_by(int rank, std::uint64_t epoch, std::int64_t sequence,
                                                Since since = Since::wait) const;
  /// From now on, Since::probe counts the heartbeats that arrive. A rank sends a probe before its deadline.
  void begin_probe() noexcept { ++probe_; }
  /// Whether the probe of another rank has arrived since this rank has sent a heartbeat.
  [[nodiscard]] bool is_probed() const noexcept { return is_probed_; }
  /// Begins a new wait: heartbeats of earlier waits do not show that their senders still respond. If a received
  /// heartbeat reports that data has moved on its sender, or that a debugger is attached to a rank, this heartbeat also
  /// begins a new wait, and is the first of that wait.
  void begin_wait() noexcept { ++wait_; }
  /// The number of the current wait.
  [[nodiscard]] std::uint64_t wait() const noexcept { return wait_; }
  /// Whether a heartbeat has arrived from any rank in this wait.
  [[nodiscard]] bool has_heard() const noexcept { return heard_in_ == wait_; }
  /// Number of heartbeats that reported one of two facts: data has moved since the previous heartbeat of the sender, or
  /// a debugger is attached to a rank.
  [[nodiscard]] std::uint64_t progress_heard() const noexcept { return progress_heard_; }
  /// The wait of `rank` in an operation of another communicator instead of arriving at operation `sequence`; null if it
  /// is not known.
  [[nodiscard]] const WaitElsewhere* status(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// The operation of the last header, summary or heartbeat from `rank`; -1 if none has arrived.
  [[nodiscard]] std::int64_t last_sequence(int rank) const;

  /// `epoch`, which is the present one, is about to end by `end`. Called before `enter_epoch`.
  void note_end(std::uint64_t epoch, EpochEnd end);
  /// Begins `epoch`: drops messages of earlier epochs. From now on, a rank that still waits in the epoch before, and
  /// sends a heartbeat, is told how it has ended.
  void enter_epoch(std::uint64_t epoch) noexcept;

 private:
  struct Peer {
    std::uint64_t seen_epoch = 0;
    std::int64_t seen_sequence = -1;
    std::uint64_t heartbeat_epoch = 0;
    std::int64_t heartbeat_sequence = -1;
    std::uint32_t heartbeat_progress = 0;
    std::uint64_t heartbeat_wait = 0;
    std::uint64_t heartbeat_operation = 0;  // operation_ when it arrived
    std::uint64_t heartbeat_probe = 0;      // probe_ when it arrived
    std::vector<int> awaited;
    bool knows_status = false;
    std::uint64_t status_epoch = 0;
    std::int64_t status_sequence = -1;
    WaitElsewhere status;
  };

  struct SummaryMessage {
    int source;
    ControlMessage header;
  };
  [[nodiscard]] const Peer& peer(int rank) const;
  [[nodiscard]] bool counts(const Peer& from, Since since) const noexcept;
  void sort(const ReceivedMessage& received);
  void note(int source, const ControlMessage& control);
  void send_to_all(const ControlMessage& control);
  void note_heartbeat(Peer& peer, const ControlMessage& control);
  void note_abort(const ControlMessage& control);
  void tell_end(int target, std::uint64_t epoch);
  void send_if_possible(int target, const ControlMessage& control);

  Transport& transport_;
  std::pair<std::uint64_t, std::int64_t> latest_heartbeat_{0, -1};
  std::uint64_t epoch_ = 0;
  std::uint64_t progress_heard_ = 0;
  std::uint64_t wait_ = 1;
  std::uint64_t operation_ = 1;  // number of calls of begin_operation, and one
  std::uint64_t probe_ = 1;      // number of calls of begin_probe, and one
  bool is_probed_ = false;
  std::uint64_t heard_in_ = 0;  // number of the wait in which the last heartbeat arrived
  std::string long_wait_;       // operation of the last long wait in another communicator
  std::map<int, Peer> peers_;   // by rank; only ranks from which messages have arrived
  // Messages of this epoch or of a later one. They are few: a rank is at most one operation ahead of the ranks that
  // wait for it.
  std::vector<Header> headers_;
  std::vector<SummaryMessage> summaries_;
  std::deque<PairMessage> pair_messages_;
  std::size_t withdrawals_ = 0;  // in `pair_messages_`
  std::vector<Gone> gone_ranks_;
  std::optional<ReceivedMessage> unsorted_;            // kept if an allocation fails: a message is received only once
  bool is_abandoning_ = false;                         // from begin_abandoning to enter_epoch
  std::vector<std::pair<int, std::uint64_t>> untold_;  // ranks to be told how an epoch has ended
  std::map<std::uint64_t, EpochEnd> aborts_;           // by epoch: the abort with the lowest sequence number
  std::map<std::uint64_t, Failure> losses_;            // by epoch: the first loss, which `aborts_` may not have
  std::optional<Failure> late_loss_;
  static constexpr std::size_t kept_ends = 4;
  std::map<std::uint64_t, EpochEnd> ends_;  // of the last epochs on this rank, by epoch
};

}  // namespace lockstep::detail
