// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mail of one rank: sorted by sender and kind, stale letters thrown away.

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

  /// Takes in everything that has arrived.
  void poll();

  void send_header(int target, std::uint64_t epoch, std::int64_t sequence, std::uint32_t round, const Summary& summary);
  /// Tells everybody that this rank is in operation `sequence`.
  void send_roll_call(std::uint64_t epoch, std::int64_t sequence);
  /// Tells everybody that this rank, whose next operation is `sequence`, is elsewhere: in `what`.
  void send_whereabouts(std::uint64_t epoch, std::int64_t sequence, const std::string& what);
  /// Tells everybody that this rank leaves `epoch` at operation `sequence`, and why.
  void send_failure(std::uint64_t epoch, std::int64_t sequence, const Failure& failure);

  /// Sends one rank a letter about a message between the two.
  void send_to(int target, const ControlMessage& control);
  struct PairMail {
    int source;
    ControlMessage message;
  };
  [[nodiscard]] bool has_pair_mail() const noexcept { return !pair_mail_.empty(); }
  /// The next letter about a message between its sender and this rank.
  [[nodiscard]] std::optional<PairMail> take_pair_mail();

  /// The header that `source` sent for this round of this operation, if it is here.
  [[nodiscard]] std::optional<Summary> take_header(int source, std::uint64_t epoch, std::int64_t sequence,
                                                   std::uint32_t round);
  /// Why operation `sequence` of `epoch` will not be completed, if somebody left before or in it. Operations that
  /// everybody has entered before that are still completed.
  [[nodiscard]] const Failure* failure(std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether `rank` has shown itself in this operation, or in a later one.
  [[nodiscard]] bool has_shown_itself(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// Whether anybody has called the roll of this operation.
  [[nodiscard]] bool roll_was_called(std::uint64_t epoch, std::int64_t sequence) const;
  /// Where `rank` has said that it is instead of coming to this operation; empty if it has not.
  [[nodiscard]] std::string_view whereabouts(int rank, std::uint64_t epoch, std::int64_t sequence) const;
  /// The last operation in which `rank` was heard of; -1 if none.
  [[nodiscard]] std::int64_t last_sequence(int rank) const;

  /// Drops what belongs to epochs before `epoch`.
  void enter_epoch(std::uint64_t epoch);

 private:
  struct Peer {
    std::deque<ControlMessage> headers;
    std::uint64_t seen_epoch = 0;
    std::int64_t seen_sequence = -1;
    std::uint64_t called_epoch = 0;
    std::int64_t called_sequence = -1;
    std::uint64_t elsewhere_epoch = 0;
    std::int64_t elsewhere_sequence = -1;
    std::string elsewhere;
  };

  void send_to_all(const ControlMessage& control);
  void note_departure(const ControlMessage& control);

  Transport& transport_;
  std::uint64_t epoch_ = 0;
  std::vector<Peer> peers_;
  std::deque<PairMail> pair_mail_;
  struct Departure {
    std::int64_t sequence;
    Failure failure;
  };
  std::map<std::uint64_t, Departure> departures_;  // by epoch, the one of lowest sequence
};

}  // namespace lockstep::detail
