// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives between two ranks, independent of the queue of collectives. The k-th send from rank a to rank b
// matches the k-th receive on b from a. No data is ever written to tensors of another size or type: the sender offers
// its descriptor, and the receiver compares this descriptor with its own.
//
// Ranks of one node do that in shared memory (engine/node_messages). The first message of a pair, messages for which
// the arena has no room, and all messages between nodes, are messages of the transport: the sender offers its
// descriptor, and the receiver accepts or refuses the offer. The data of a small message follows its offer in the same
// message of the transport; other data is sent after the acceptance. A rank that fails tells the other one the reason,
// as a refusal or a withdrawal of the message with that number, which are messages of the transport in all cases.
//
// Data that came with its offer may have been received when the offer is withdrawn. So a sender that times out
// withdraws it somewhat before the deadline, and waits for the answer: after an acceptance, the send has succeeded.

#pragma once

#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/driving_clock.hpp"
#include "collectives/engine/node_messages.hpp"
#include "collectives/engine/numbered_queue.hpp"
#include "collectives/engine/pair_operation.hpp"
#include "collectives/engine/recorder.hpp"

#include <atomic>
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

/// The slot at which a thread that waits for a message in shared memory looks.
struct AwaitedMessage {
  const std::atomic<std::uint64_t>* state = nullptr;  ///< state of the slot; null: the engine must be driven
  std::int64_t number = 0;
  PairOperation::Role role = PairOperation::Role::send;

  /// Whether the other rank has done its part. Thread-safe while the engine exists.
  [[nodiscard]] bool has_come() const noexcept {
    const std::uint64_t now = state->load(std::memory_order_acquire);
    return role == PairOperation::Role::send ? MessageRing::is_final(MessageRing::phase_of(now))
                                             : now == MessageRing::state_of(number, MessageRing::Phase::offered);
  }
};

/// Not thread-safe: called under the engine's lock.
class PairChannel {
 public:
  using Clock = DrivingClock::Clock;
  /// Time after which a rank does not wait any longer for the reason of a failure of the other rank.
  static constexpr std::chrono::milliseconds time_of_reason{1000};
  /// The data of a message of at most this size follows its offer.
  static constexpr std::size_t most_offered_bytes = std::size_t{32} << 10;
  /// So many bytes of offers with data may be without an answer of one rank, which keeps them. Further messages are
  /// offered without data.
  static constexpr std::size_t most_unanswered_bytes = std::size_t{256} << 10;

  struct Options {
    std::chrono::milliseconds warn_after;
    std::chrono::milliseconds fail_after;
    std::string name;  ///< name of the communicator
  };
  /// All references must outlive the channel.
  PairChannel(Transport& transport, ControlChannel& control, Recorder& recorder, Options options);

  /// If it throws, the operation is not posted, and has no number.
  void post(std::shared_ptr<PairOperation> operation);
  /// What to look at in a wait for `operation`, which has been posted.
  [[nodiscard]] AwaitedMessage awaited(const PairOperation& operation);
  /// Completes `operation`, which has been posted, if the other rank has done its part in shared memory. Returns
  /// whether the operation is done. If an allocation fails, throws std::bad_alloc, and `drive` goes on.
  bool advance_at_once(const PairOperation& operation);
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
  /// has destroyed its communicator (`has_left`), transfers on which both ranks had agreed do not fail, since `rank`
  /// completed them before; nor do messages in shared memory that the receiver has taken.
  void fail_gone(int rank, bool has_left, const std::string& text);
  /// Fails all pending sends and receives with `code` and `text`; if that error cannot be allocated, with
  /// `out_of_memory_`.
  void fail_all(Code code, std::string_view text) noexcept;
  /// The wait in the pending send or receive `operation`, if it began before `limit`.
  [[nodiscard]] std::optional<WaitElsewhere> wait_in(const Operation& operation, Clock::time_point limit) const;
  /// Whether other ranks have not been told of some failed receives. The next `drive` tells them; an idle progress
  /// thread does not drive for it.
  [[nodiscard]] bool has_untold() const noexcept { return has_untold_; }
  /// Whether no send or receive goes on before another rank offers, takes or answers a message, which wakes this rank.
  /// Costs some nanoseconds for each that is pending; false if these are many.
  [[nodiscard]] bool waits_for_other_ranks() const;
  /// Whether no send or receive is pending.
  [[nodiscard]] bool is_empty() const noexcept { return under_way_ == 0 && voids_.empty(); }

 private:
  using Role = PairOperation::Role;

  enum class Path : std::uint8_t { unknown, with_offer, messages, memory };
  struct Pending {
    std::shared_ptr<PairOperation> operation;
    Path path = Path::unknown;  // of the data; unknown until the send is offered, or the receive has met its offer
    std::size_t received = 0;   // number of bytes received through shared memory
    bool is_taken = false;      // whether all data is here, and the sender is told so
    std::optional<Clock::time_point> since = std::nullopt;       // from the first `drive` on
    std::optional<Clock::time_point> late_since = std::nullopt;  // when the deadline was first seen to have passed
    bool warned = false;
    /// Time at which the slot showed that the other rank had failed, or at which this send, whose data is with its
    /// offer, was withdrawn with `withdrawn_for`.
    std::optional<Clock::time_point> fails_since = std::nullopt;
    SharedError withdrawn_for = nullptr;
  };
  /// An offer whose receive is not posted yet.
  struct Offer {
    Descriptor descriptor;
    bool has_data = false;
    std::vector<std::byte> data = {};
  };
  /// Late messages, which one warning reports together.
  struct LateMessages {
    std::size_t count = 0;
    std::shared_ptr<PairOperation> first;  // the one that has waited longest
    Clock::time_point since;
  };
  using PendingByNumber = NumberedQueue<Pending>;
  struct Peer {
    bool is_busy = false;  // whether the peer is in busy_
    std::int64_t sends_posted = 0;
    std::int64_t receives_posted = 0;
    std::int64_t next_offer = 0;  // the first send that has not been offered
    PendingByNumber sends;
    PendingByNumber receives;
    bool has_told_ring = false;                  // whether an offer has told the peer the address of `sent`
    std::unique_ptr<SentMessages> sent;          // null: not made yet, or the ranks share no memory
    std::unique_ptr<ReceivedMessages> received;  // null: the peer has not told its address
    std::map<std::int64_t, Offer> offers;
    std::size_t unanswered_bytes = 0;               // of own offers with data
    std::map<std::int64_t, Failure> refusals;       // failures of receives that ended before their offer arrived
    std::map<std::int64_t, Failure> refused;        // failures of receives of the other rank, before the send is posted
    std::map<std::int64_t, Failure> withdrawals;    // withdrawn sends whose receive is not posted yet
    std::map<std::int64_t, std::size_t> withdrawn;  // sizes of own withdrawn sends that have no answer yet
    // Receives from this number on may have failed without a refusal to the peer; -1: none.
    std::int64_t untold_from = -1;
    [[nodiscard]] PendingByNumber& pending(Role role) noexcept { return role == Role::send ? sends : receives; }
  };
  /// A transfer without valid data, to a receiver that had accepted.
  struct VoidTransfer {
    Buffer buffer;
    Transfer transfer;
    Clock::time_point since;
  };

  [[nodiscard]] int member_of(int rank) const;
  [[nodiscard]] static bool is_by_memory(const Peer& peer, std::int64_t number);
  [[nodiscard]] bool offer(int rank, Peer& peer, std::int64_t number);
  [[nodiscard]] std::chrono::milliseconds time_of_answer() const noexcept;
  [[nodiscard]] static std::size_t bytes_with_offer(const Pending& pending) noexcept;
  void send_offer(int rank, const ControlMessage& offer, const PairOperation& operation);
  void offer_next(int rank, Peer& peer);
  void take(ControlChannel::PairMessage& message, Workspace& workspace);
  void take_offer(ControlChannel::PairMessage& received, Workspace& workspace);
  void take_answer(int source, const ControlMessage& message, Workspace& workspace);
  void take_withdrawal(int source, const ControlMessage& message, Workspace& workspace);
  [[nodiscard]] bool has_moved(const Pending& pending, Workspace& workspace);
  void match(int source, std::int64_t number, Workspace& workspace);
  void meet(int source, std::int64_t number, Workspace& workspace);
  void receive_from_offer(Pending& pending, const Offer& offer);
  [[nodiscard]] bool meet_in_memory(int source, Peer& peer, std::int64_t number);
  [[nodiscard]] Failure mismatch(int source, std::int64_t number, const Descriptor& offered,
                                 const PairOperation& operation) const;
  void withdraw(int target, std::int64_t number, const Failure& failure);
  void end_failed(Peer& peer);
  void begin(Pending& pending, Workspace& workspace);
  static void restart(Pending& pending) noexcept;
  void agree(Pending& pending);
  void agree_at_once(Pending& pending);
  void advance(int rank, Peer& peer, Role role, Workspace& workspace);
  void end_delivered(Peer& peer, std::int64_t number);
  void advance_in_memory(int rank, Peer& peer, Role role, std::int64_t number);
  void look_at_slot(int rank, Peer& peer, std::size_t index);
  void await_reason(int rank, Peer& peer, Role role, std::int64_t number);
  static void drop_chunks(Peer& peer);
  static void put_off(Peer& peer, Clock::duration pause) noexcept;
  void note_untold(Peer& peer, std::int64_t number) noexcept;
  void tell_failed_receives();
  void advance_voids();
  void watch(int rank, Peer& peer, Role role, LateMessages& late);
  void warn(const LateMessages& late);
  void time_out(int rank, std::int64_t number, const std::shared_ptr<PairOperation>& operation);
  void finish(Peer& peer, Role role, std::int64_t number, SharedError error) noexcept;
  void answer(int target, ControlKind kind, std::int64_t number, const Failure* failure);
  [[nodiscard]] std::string text_of(const PairOperation& operation, std::int64_t number,
                                    std::string_view kind = {}) const;
  [[nodiscard]] Failure failure_of_pair(Code code, const PairOperation& operation, std::int64_t number,
                                        const std::string& why) const;
  [[nodiscard]] static Failure failure_of_other_end(Role role, int rank, int other, std::int64_t number);
  /// An error of all pending sends and receives, whose cause is this rank.
  [[nodiscard]] SharedError error_of_this_rank(Code code, std::string_view text) const;
  [[nodiscard]] Failure failure_of_shortage(const PairOperation& operation, std::int64_t number) const;

  Transport& transport_;
  ControlChannel& control_;
  Recorder& recorder_;
  Options options_;
  std::map<int, Peer> peers_;
  std::vector<int> busy_;  // the peers that may have pending sends or receives
  std::vector<VoidTransfer> voids_;
  std::vector<std::byte> offer_;  // memory for an offer with data
  std::size_t under_way_ = 0;
  bool has_untold_ = false;  // whether any peer has an `untold_from`
  bool was_idle_ = true;     // nothing was under way at some time since the last `drive`
  DrivingClock clock_;
  Clock::time_point watched_{};
  std::optional<Clock::time_point> lacks_memory_since_;
  const SharedError out_of_memory_;
  std::optional<Clock::time_point> warned_at_;
};

}  // namespace lockstep::detail
