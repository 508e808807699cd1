// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One collective on its way through the engine.

#pragma once

#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/control_message.hpp"
#include "transport/buffer.hpp"
#include "transport/shm/control_block.hpp"
#include "transport/transport.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The rest of an operation that CUDA streams complete.
class StreamWork {
 public:
  StreamWork() = default;
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;
  virtual ~StreamWork() = default;
  /// Makes later work on `stream`, a CUDA stream, wait for the end of the operation. Without the engine's lock.
  virtual void hold_back(void* stream) const = 0;
};

/// How far the data of an operation has moved on one rank.
struct DataProgress {
  std::uint64_t count = 0;  ///< changes whenever data moves
  std::uint64_t moved_bytes = 0;
  std::uint64_t total_bytes = 0;  ///< zero: not known
};

/// An error that several waiting threads may throw: each throws a copy.
using SharedError = std::shared_ptr<const Error>;

/// The places of an operation in the flight record of its communicator; see Recorder.
struct RecordPlace {
  std::uint64_t entry = 0;  ///< of this life
  std::uint64_t call = 0;   ///< description of the call; 0: none
};

/// Driven under the engine's lock. Life: posted; agreed on by the ranks; started; advanced until done, or abandoned.
/// A reusable operation lives again when it is acquired again.
class Operation {
 public:
  explicit Operation(const Descriptor& descriptor) : descriptor_(descriptor), own_hash_(descriptor.hash) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  [[nodiscard]] const Descriptor& descriptor() const noexcept { return descriptor_; }

  /// The line of this rank's call: shown, not compared. Before the agreement.
  void note_place(const std::source_location& where) noexcept {
    const auto place = reinterpret_cast<std::uintptr_t>(where.file_name()) + where.line();
    if (std::exchange(place_, place) == place) return;
    set_place(descriptor_, where);
    record_.call = 0;
  }
  /// Tells one such line from another.
  [[nodiscard]] std::uintptr_t place() const noexcept { return place_; }

  /// On a node with shared memory: this rank arrives at the operation. What other ranks need to know of its buffers
  /// goes into `arrival`; an operation that shares no buffers writes nothing. Called once per life, before the
  /// agreement.
  virtual void arrive(std::uint64_t tag, Arrival& arrival) {
    static_cast<void>(tag);
    static_cast<void>(arrival);
  }
  /// The data that travels with the agreement, if all of it does; else null.
  [[nodiscard]] virtual CarriedData* carried() noexcept { return nullptr; }
  /// All ranks agree: data may move. Called once per life.
  virtual void start(Transport& transport, Workspace& workspace) = 0;
  /// Moves on without waiting; whether all is done and the outputs are written.
  [[nodiscard]] virtual bool advance(Transport& transport, Workspace& workspace) = 0;
  /// The rest of the operation, if all that is left happens on CUDA streams, also if no thread drives the engine; else
  /// null. Once set, it stays.
  [[nodiscard]] virtual const StreamWork* on_streams() const noexcept { return nullptr; }
  /// The error that was found on the way, the same on every rank; no data of the operation moves any more when it is
  /// done. Null if there is none.
  [[nodiscard]] virtual const Failure* failure() const noexcept { return nullptr; }
  /// How far the data has moved. By default that is what `transport` moves.
  [[nodiscard]] virtual DataProgress progress(const Transport& transport) const noexcept {
    const TransferCount count = transport.count();
    return {count.completed, count.moved_bytes, count.started_bytes};
  }
  /// Ranks whose data is missing.
  [[nodiscard]] virtual std::vector<int> awaited_ranks() const = 0;
  /// The reason for a wait of which no rank is known to be the cause.
  [[nodiscard]] virtual std::string_view awaited() const { return "a message did not arrive"; }
  /// Will never be advanced again: memory that a late message or rank may touch is left to the transport, or leaked.
  /// Returns whether the ranks may no longer share the node's memory in later operations, because one still uses it.
  [[nodiscard]] virtual bool abandon(Transport& transport) noexcept = 0;
  /// Whether `abandon` knows what still moves even after `start` or `advance` has thrown: then the communicator works
  /// again in the next epoch.
  [[nodiscard]] virtual bool survives_faults() const noexcept { return false; }

  /// Whether it can be posted again when it is done.
  [[nodiscard]] virtual bool is_reusable() const noexcept { return false; }

  /// Takes the operation for one life; false if it is taken already. Thread-safe, as `release` is.
  [[nodiscard]] bool try_acquire() noexcept {
    if (in_use_.exchange(true, std::memory_order_acquire)) return false;
    is_agreed_ = is_done_ = false;
    error_ = nullptr;
    return true;
  }
  void release() noexcept { in_use_.store(false, std::memory_order_release); }

  /// Deadline of this call; zero: the communicator's. Before the operation is posted.
  void set_fail_after(std::chrono::milliseconds fail_after) noexcept { fail_after_ = fail_after; }
  /// That deadline, or `otherwise` if the call has none.
  [[nodiscard]] std::chrono::milliseconds fail_after(std::chrono::milliseconds otherwise) const noexcept {
    return fail_after_.count() > 0 ? fail_after_ : otherwise;
  }

  /// Wait in this call after which the missing ranks are logged; zero: the communicator's. Before it is posted.
  void set_warn_after(std::chrono::milliseconds warn_after) noexcept { warn_after_ = warn_after; }
  [[nodiscard]] std::chrono::milliseconds warn_after(std::chrono::milliseconds otherwise) const noexcept {
    return warn_after_.count() > 0 ? warn_after_ : otherwise;
  }

  // The state in the engine; called under its lock.

  /// Posted in `epoch`, after `merges`, which the other ranks compare with theirs.
  void enter(std::uint64_t epoch, const MergeCount& merges) noexcept {
    epoch_ = epoch;
    descriptor_.merges = merges;
  }
  /// Before the agreement: this rank had completed `completed` operations before the epoch, which the other ranks
  /// compare with theirs.
  void place_after(std::int64_t completed) noexcept {
    descriptor_.completed_before = completed;
    descriptor_.hash = hash_after(own_hash_, descriptor_.merges, descriptor_.is_recovery ? 0 : completed);
  }
  /// Agrees with the other ranks although they have completed different numbers of operations. For an operation of one
  /// life.
  void set_recovery() noexcept { descriptor_.is_recovery = true; }
  /// The epoch in which it was posted.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// All ranks have come and call the same.
  void agree() noexcept { is_agreed_ = true; }
  [[nodiscard]] bool is_agreed() const noexcept { return is_agreed_; }
  /// Ends this life; `error` is null if the operation is complete.
  void finish(SharedError error) noexcept {
    error_ = std::move(error);
    is_done_ = true;
  }
  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  [[nodiscard]] const SharedError& error() const noexcept { return error_; }
  /// For the recorder alone.
  [[nodiscard]] RecordPlace& record() noexcept { return record_; }

 private:
  Descriptor descriptor_;
  std::uint64_t own_hash_;
  std::uint64_t epoch_ = 0;
  bool is_agreed_ = false;
  bool is_done_ = false;
  std::uintptr_t place_ = 0;
  RecordPlace record_;
  std::atomic<bool> in_use_{false};
  std::chrono::milliseconds fail_after_{0};
  std::chrono::milliseconds warn_after_{0};
  SharedError error_;
};

/// Holds an acquired operation, and gives it back.
class OperationUse {
 public:
  explicit OperationUse(std::shared_ptr<Operation> acquired) noexcept : operation_(std::move(acquired)) {}
  OperationUse(const OperationUse&) = delete;
  OperationUse& operator=(const OperationUse&) = delete;
  ~OperationUse() { operation_->release(); }
  [[nodiscard]] const std::shared_ptr<Operation>& operation() const noexcept { return operation_; }

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace lockstep::detail
