// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An MPI communicator that several transports share, and the division of its tags among these transports.

#pragma once

#include "base/mutex.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/mpi/pending.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <utility>

namespace lockstep::detail {

/// The tags of one transport, which are called its slot. Every MPI library has at least 32768 tags. Slot 0, the lower
/// half of these tags, belongs to the transport for which the MPI communicator was made: tag 0 for messages, odd tags
/// for transfers aside (see Transport::send_aside), even tags for other transfers. The other transports have slots in
/// the remaining tags, up to the largest tag of the MPI library. Successive transports and epochs use different tags
/// for transfers, so that no transfer is matched with an older transfer that was never received.
///
/// After `epochs` failures, a tag of transfers is used again. When a rank enters such an epoch, it drops all messages
/// with that tag that have arrived (StaleTransfers::drop_all). A message of the earlier epoch is among them: since it
/// was sent, its sender and this rank have had at least 62 failures, and each of these has taken at least the time of
/// one message. A message of the new epoch is not: a rank sends its first transfer of an epoch after the agreement on
/// an operation of that epoch, in which this rank takes part.
class Tags {
 public:
  /// The tag of the messages of CreationWait, on the communicator of a Job.
  static constexpr int arrivals = 16'383;  // absence_tag is the tag before this one
  /// Number of slots other than slot 0.
  [[nodiscard]] static int slots();

  Tags(std::uint64_t number, int slot) : number_(number), slot_(slot) {}
  [[nodiscard]] int of_messages() const noexcept;
  [[nodiscard]] int of_transfers_aside() const noexcept;
  [[nodiscard]] int of_transfers(std::uint64_t epoch) const noexcept;
  /// Number of successive epochs with different tags of transfers.
  [[nodiscard]] std::uint64_t epochs() const noexcept;

 private:
  [[nodiscard]] int first() const noexcept;

  std::uint64_t number_;
  int slot_;
};

/// Owns the communicator. All transports that use the communicator share this object.
class Context {
 public:
  explicit Context(mpi::Comm comm) : comm_(std::move(comm)) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  /// Frees the communicator, unless it is borrowed or an abandoned duplicate of it is unfinished.
  ~Context();
  /// Makes a context of a communicator that `owner` frees. The context keeps `owner`, since a closed endpoint may still
  /// receive on the communicator when the job has ended.
  [[nodiscard]] static std::shared_ptr<Context> borrow(MPI_Comm comm, std::shared_ptr<const void> owner);

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_.get(); }
  [[nodiscard]] const mpi::Comm& get() const noexcept { return comm_; }

  /// Takes a slot for a transport of this rank. Returns false if another transport has the slot. `take_slot` and
  /// `free_slot` are thread-safe.
  [[nodiscard]] bool take_slot(int slot);
  void free_slot(int slot);

  // Duplicates of the communicator. MPI matches the MPI_Comm_idup calls of the ranks in the order of the calls. If this
  // rank has abandoned a duplicate, or has not begun a duplicate because of a failure, that duplicate must be completed
  // before the next duplicate. These functions are called under the lock of the engine whose transport has slot 0.

  /// Number of duplicates that this rank has begun.
  [[nodiscard]] std::uint64_t duplicates() const noexcept { return duplicates_; }
  /// Completes the first `count` duplicates, and drops them. Returns whether all of them are complete. Does not wait.
  [[nodiscard]] bool drop_duplicates(std::uint64_t count);
  [[nodiscard]] std::unique_ptr<mpi::PendingDuplicate> start_duplicate();
  void abandon_duplicate(std::unique_ptr<mpi::PendingDuplicate> duplicate) noexcept;

 private:
  std::shared_ptr<const void> owner_;  // of comm_; null: this object is the owner
  mpi::Comm comm_;
  std::uint64_t duplicates_ = 0;
  std::deque<std::unique_ptr<mpi::PendingDuplicate>> abandoned_;
  Mutex mutex_;
  std::set<int> slots_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
