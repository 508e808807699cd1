// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An MPI communicator that transports share, and the division of its tags among them.

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

/// The tags of one transport. Every MPI has 32768 tags. The transport for which the MPI communicator was made has slot
/// 0 and the lower half of them: 0 for messages, odd tags for transfers aside, even tags for other transfers. The other
/// transports have slots in the upper half, and above it as far as MPI has tags. Tags of transfers differ between
/// successive transports and epochs, so that no transfer is matched with one that was never received.
class Tags {
 public:
  /// The tag, on the communicator of a Job, of the messages that say which ranks make a communicator.
  static constexpr int arrivals = 16'383;  // absence_tag is the one before
  /// Number of slots other than slot 0.
  [[nodiscard]] static int slots();

  Tags(std::uint64_t number, int slot) : number_(number), slot_(slot) {}
  [[nodiscard]] int of_messages() const noexcept;
  [[nodiscard]] int of_transfers_aside() const noexcept;
  [[nodiscard]] int of_transfers(std::uint64_t epoch) const noexcept;

 private:
  [[nodiscard]] int first() const noexcept;

  std::uint64_t number_;
  int slot_;
};

/// Shared by the transports that use the communicator.
class Context {
 public:
  explicit Context(mpi::Comm comm) : comm_(std::move(comm)) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  /// Frees the communicator, unless a duplicate of it is unfinished.
  ~Context();
  /// For a communicator that its owner frees later.
  [[nodiscard]] static std::shared_ptr<Context> borrow(MPI_Comm comm);

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_.get(); }
  [[nodiscard]] const mpi::Comm& get() const noexcept { return comm_; }

  /// Takes a slot for a transport of this rank; false if another one has it. Thread-safe, as `free_slot` is.
  [[nodiscard]] bool take_slot(int slot);
  void free_slot(int slot);

  // The duplicates of the communicator. MPI matches the calls of the ranks in their order, so a duplicate that this
  // rank has abandoned, or never begun because of a failure, must be completed before the next one. Called under the
  // lock of the engine of slot 0.

  /// Number of duplicates that this rank has begun.
  [[nodiscard]] std::uint64_t duplicates() const noexcept { return duplicates_; }
  /// Completes the first `count` duplicates, and drops them. Returns whether that is done. Does not wait.
  [[nodiscard]] bool drop_duplicates(std::uint64_t count);
  [[nodiscard]] std::unique_ptr<mpi::PendingDuplicate> start_duplicate();
  void abandon_duplicate(std::unique_ptr<mpi::PendingDuplicate> duplicate) noexcept;

 private:
  mpi::Comm comm_;
  bool is_borrowed_ = false;
  std::uint64_t duplicates_ = 0;
  std::deque<std::unique_ptr<mpi::PendingDuplicate>> abandoned_;
  Mutex mutex_;
  std::set<int> slots_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
