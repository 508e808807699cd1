// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives between two ranks, independent of the queue of collectives. The k-th send from rank a to rank b
// matches the k-th receive on b from a. The sender offers its descriptor. The receiver compares this descriptor with
// its own, and accepts or refuses the offer. After an acceptance the sender sends the data. So one send needs three
// messages, and no data is ever written to buffers of another size or type. A rank that fails before the data is sent
// sends the reason to the other rank.

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/driving_clock.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/engine/recorder.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// One end of a message from one rank to another: a list of tensors in one transfer, which is started when both ranks
/// agree. The transfer begins with a word that says whether valid data follows. If the sender times out before it gets
/// the acceptance, it still makes the transfer, without valid data, since the transfers between two ranks match in
/// order.
class PairOperation final : public Operation {
 public:
  enum class Role : std::uint8_t { send, receive };

  /// Each of `items` has one input (send) or one output (receive). `copies` has the host copies of tensors on GPUs;
  /// null if no tensor is on a GPU.
  PairOperation(const Descriptor& descriptor, Role role, int peer, std::vector<HostItem> items,
                std::unique_ptr<HostCopies> copies = nullptr);

  [[nodiscard]] Role role() const noexcept { return role_; }
  [[nodiscard]] int peer() const noexcept { return peer_; }

  void start(Transport& transport, Workspace& workspace) override;
  /// Called instead of `start` if the send has failed: makes the transfer without valid data, and reads no tensor.
  void start_void(Transport& transport, Workspace& workspace);
  /// Stays false if the transfer had no valid data: a control message with the reason ends the operation.
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

/// Not thread-safe: called under the engine's lock.
class PairChannel {
 public:
  using Clock = DrivingClock::Clock;
  struct Options {
    std::chrono::milliseconds warn_after;
    std::chrono::milliseconds fail_after;
    std::string name;  ///< name of the communicator
  };
  /// All references must outlive the channel.
  PairChannel(Transport& transport, ControlChannel& control, Recorder& recorder, Options options);

  /// If it throws, the operation is not posted, and has no number.
  void post(const std::shared_ptr<PairOperation>& operation);
  /// This rank does not make its next send to `rank` or its next receive from `rank`, as `role` says. Returns the
  /// number of that call. Needs no memory after the first call with `rank`, so that the next calls of both ranks match
  /// even if `refuse` has none.
  [[nodiscard]] std::int64_t skip(PairOperation::Role role, int rank);
  /// The call of `rank` that matches the skipped call `number` fails with `failure`.
  void refuse(PairOperation::Role role, int rank, std::int64_t number, const Failure& failure);
  /// Makes progress without waiting. Handles the messages that `control` has received. If it throws std::bad_alloc, the
  /// next call goes on where this one has ended.
  void drive(Workspace& workspace);
  /// Called when there was no memory for progress. Returns whether there has been none for `fail_after`.
  [[nodiscard]] bool lacks_memory_for_long() noexcept;
  /// Called when `rank` is gone, for the reason `text`: fails the sends and receives that wait for `rank`. If `rank`
  /// has destroyed its communicator (`has_left`), messages on which both ranks had agreed do not fail, since `rank`
  /// completed them before.
  void fail_gone(int rank, bool has_left, const std::string& text);
  /// Fails all pending sends and receives with `code` and `text`; if that error cannot be allocated, with
  /// `out_of_memory_`.
  void fail_all(Code code, std::string_view text) noexcept;
  /// The wait in the pending send or receive `operation`, if it began before `limit`.
  [[nodiscard]] std::optional<WaitElsewhere> wait_in(const Operation& operation, Clock::time_point limit) const;
  /// Whether no send or receive is pending.
  [[nodiscard]] bool is_empty() const noexcept { return under_way_ == 0 && voids_.empty(); }

 private:
  struct Pending {
    std::shared_ptr<PairOperation> operation;
    Clock::time_point since;
    std::optional<Clock::time_point> late_since = std::nullopt;  // when the deadline was first seen to have passed
    bool warned = false;
  };
  /// The messages of which one warning tells.
  struct LateMessages {
    std::size_t count = 0;
    std::shared_ptr<PairOperation> first;  // the one that has waited longest
    Clock::time_point since;
  };
  using PendingByNumber = std::map<std::int64_t, Pending>;
  struct Peer {
    bool is_busy = false;  // whether the peer is in busy_
    std::int64_t sends_posted = 0;
    std::int64_t receives_posted = 0;
    PendingByNumber sends;
    PendingByNumber receives;
    std::map<std::int64_t, Descriptor> offers;    // offers whose receive is not posted yet
    std::map<std::int64_t, Failure> refusals;     // failures of receives that ended before their offer arrived
    std::map<std::int64_t, Failure> refused;      // failures of receives of the other rank, before the send is posted
    std::map<std::int64_t, Failure> withdrawals;  // withdrawn sends whose receive is not posted yet
    std::map<std::int64_t, std::shared_ptr<PairOperation>> withdrawn;  // own withdrawn sends that have no answer yet
  };

  void take(int source, const ControlMessage& message, Workspace& workspace);
  void take_answer(int source, const ControlMessage& message, Workspace& workspace);
  void take_withdrawal(int source, const ControlMessage& message);
  void match(int source, std::int64_t number, Workspace& workspace);
  void meet(int source, std::int64_t number, Workspace& workspace);
  void withdraw(int target, std::int64_t number, const Failure& failure);
  void end_failed(Peer& peer);
  void begin(Pending& pending, Workspace& workspace);
  void advance(PendingByNumber& pending, Workspace& workspace);
  void watch(int rank, PendingByNumber& pending, LateMessages& late);
  void warn(const LateMessages& late);
  void time_out(int rank, std::int64_t number, const Pending& pending);
  void finish(PendingByNumber& pending, std::int64_t number, SharedError error) noexcept;
  void answer(int target, ControlKind kind, std::int64_t number, const Failure* failure);
  [[nodiscard]] std::string text_of(const PairOperation& operation, std::int64_t number,
                                    std::string_view kind = {}) const;
  [[nodiscard]] Failure failure_of_pair(Code code, const PairOperation& operation, std::int64_t number,
                                        const std::string& why) const;
  /// An error of all pending sends and receives, whose cause is this rank.
  [[nodiscard]] SharedError error_of_this_rank(Code code, std::string_view text) const;
  [[nodiscard]] Failure failure_of_shortage(const PairOperation& operation, std::int64_t number) const;

  Transport& transport_;
  ControlChannel& control_;
  Recorder& recorder_;
  Options options_;
  std::map<int, Peer> peers_;
  std::vector<int> busy_;       // the peers that may have pending sends or receives
  std::vector<Pending> voids_;  // transfers without valid data, to receivers that had accepted
  std::size_t under_way_ = 0;
  DrivingClock clock_;
  std::optional<Clock::time_point> lacks_memory_since_;
  const SharedError out_of_memory_;
  std::optional<Clock::time_point> warned_at_;
};

}  // namespace lockstep::detail
