// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives between two ranks, beside the queue of collectives. The k-th send of a rank to another is matched
// with the k-th receive there. The sender offers its descriptor, the receiver compares it with its own and accepts or
// refuses, then the data is sent: three messages, and no data is ever written to a wrong place. A rank that withdraws
// before that sends the reason.

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/driving_clock.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/engine/recorder.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

/// One end of a message from one rank to another: a list of tensors in one transfer. Started when both ends agree. The
/// transfer begins with a word that says whether the rest is valid: an accepted
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

/// Not thread-safe: the engine calls under its lock.
class PairChannel {
 public:
  struct Options {
    std::chrono::milliseconds warn_after;
    std::chrono::milliseconds fail_after;
    std::string name;  ///< of the communicator
  };
  /// All must outlive it.
  PairChannel(Transport& transport, ControlChannel& control, Recorder& recorder, Options options);

  void post(const std::shared_ptr<PairOperation>& operation);
  /// The next send to `rank`, or receive from it, does not take place: `rank` gets `failure`.
  void refuse(PairOperation::Role role, int rank, const Failure& failure);
  /// Makes progress without waiting, with the messages that `control` holds.
  void drive(Workspace& workspace);
  /// `rank` is gone, with `text`: ends the sends and receives that wait for it. If it `has_left` in order, it has
  /// completed those to which it had agreed.
  void fail_gone(int rank, bool has_left, const std::string& text);
  /// Ends all sends and receives that are under way.
  void fail_all(const Failure& failure);
  /// Whether nothing is under way.
  [[nodiscard]] bool is_empty() const noexcept { return under_way_ == 0 && voids_.empty(); }

 private:
  using Clock = DrivingClock::Clock;
  struct Pending {
    std::shared_ptr<PairOperation> operation;
    Clock::time_point since;
    std::optional<Clock::time_point> late_since = std::nullopt;  // when its deadline was seen to have passed
    bool warned = false;
  };
  using PendingByNumber = std::map<std::int64_t, Pending>;
  struct Peer {
    bool is_busy = false;  // in busy_
    std::int64_t sends_posted = 0;
    std::int64_t receives_posted = 0;
    PendingByNumber sends;
    PendingByNumber receives;
    std::map<std::int64_t, Descriptor> offers;                         // not yet matched by a receive
    std::map<std::int64_t, Failure> refusals;                          // by receives that ended before the offer came
    std::map<std::int64_t, Failure> withdrawals;                       // of sends, before the receive was posted
    std::map<std::int64_t, std::shared_ptr<PairOperation>> withdrawn;  // sends that are not answered yet
  };

  void take(int source, const ControlMessage& message, Workspace& workspace);
  void take_answer(int source, const ControlMessage& message, Workspace& workspace);
  void take_withdrawal(int source, const ControlMessage& message);
  void meet(int source, std::int64_t number, Workspace& workspace);
  void begin(Pending& pending, Workspace& workspace);
  void advance(PendingByNumber& pending, Workspace& workspace);
  void watch(int rank, PendingByNumber& pending);
  void time_out(int rank, std::int64_t number, const Pending& pending);
  void finish(PendingByNumber& pending, std::int64_t number, const Failure* failure);
  void answer(int target, ControlKind kind, std::int64_t number, const Failure* failure);
  [[nodiscard]] Failure failure_of_pair(Code code, const PairOperation& operation, std::int64_t number,
                                        const std::string& why) const;

  Transport& transport_;
  ControlChannel& control_;
  Recorder& recorder_;
  Options options_;
  std::map<int, Peer> peers_;
  std::vector<int> busy_;       // the peers that had sends or receives since the last call of drive
  std::vector<Pending> voids_;  // empty transfers to receivers that had accepted
  std::size_t under_way_ = 0;
  DrivingClock clock_;
};

}  // namespace lockstep::detail
