// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One operation of a communicator, from its post to its end.

#pragma once

#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/control_message.hpp"
#include "device/host/memory_use.hpp"
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

/// The remaining work of an operation, all of which is enqueued on CUDA streams.
class StreamWork {
 public:
  StreamWork() = default;
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;
  virtual ~StreamWork() = default;
  /// Work that is enqueued on the CUDA stream `stream` after this call waits for the end of the operation. Called
  /// without the engine's lock.
  virtual void hold_back(void* stream) const = 0;
};

/// How far the data of an operation has moved on one rank.
struct DataProgress {
  std::uint64_t count = 0;  ///< changes whenever data moves
  std::uint64_t moved_bytes = 0;
  std::uint64_t total_bytes = 0;  ///< zero: unknown
};

/// An error that several waiting threads may throw. Each thread throws a copy.
using SharedError = std::shared_ptr<const Error>;

/// Numbers by which Recorder finds an operation in the flight record of its communicator.
struct RecordPlace {
  std::uint64_t entry = 0;         ///< number of the entry of the present run; 0: none
  std::uint64_t call = 0;          ///< number of the description of the call; 0: none
  std::uint32_t metered_call = 0;  ///< number of the description in the meter of the communicator; 0: none
};

/// Sees the end of one run of an operation.
class EndObserver {
 public:
  EndObserver() = default;
  EndObserver(const EndObserver&) = delete;
  EndObserver& operator=(const EndObserver&) = delete;
  virtual ~EndObserver() = default;
  /// Called once, under the engine's lock, before a thread can see that the operation is done. `error` is null if the
  /// operation has succeeded: then its outputs are written.
  virtual void on_end(std::uint64_t epoch, std::int64_t sequence, const Error* error) noexcept = 0;
};

/// One operation. Unless stated otherwise, its functions are called under the engine's lock. In one *run*, the
/// operation is acquired, posted, agreed on by the ranks, started, and advanced until it is done or abandoned. A
/// reusable operation has one run after the other.
class Operation {
 public:
  explicit Operation(const Descriptor& descriptor) : descriptor_(descriptor), own_hash_(descriptor.hash) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  [[nodiscard]] const Descriptor& descriptor() const noexcept { return descriptor_; }

  /// Sets the line of this rank's call, which errors show but ranks do not compare. Called before the agreement.
  void note_place(const std::source_location& where) noexcept {
    const std::uintptr_t place = place_of(where);
    if (std::exchange(place_, place) == place) return;
    set_place(descriptor_, where);
    record_.call = 0;
    record_.metered_call = 0;
  }
  /// A number for a line.
  [[nodiscard]] static std::uintptr_t place_of(const std::source_location& where) noexcept {
    constexpr std::uintptr_t odd = 0x9e3779b97f4a7c15;  // so that neighbouring texts of files and lines do not collide
    return (reinterpret_cast<std::uintptr_t>(where.file_name()) * odd) ^ where.line();
  }
  /// `place_of` the line that `note_place` got last.
  [[nodiscard]] std::uintptr_t place() const noexcept { return place_; }

  /// Called on a node with shared memory when this rank arrives at the operation, once per run, before the agreement.
  /// Writes to `arrival` the data about this rank's buffers that the other ranks need. If the operation shares no
  /// buffers, `arrival` stays unchanged. `tag` is the operation_tag of the operation.
  virtual void arrive(std::uint64_t tag, Arrival& arrival) {
    static_cast<void>(tag);
    static_cast<void>(arrival);
  }
  /// The data of the operation, if all of it travels in the messages of the agreement; null for other operations.
  [[nodiscard]] virtual CarriedData* carried() noexcept { return nullptr; }
  /// Called once per run, when all ranks have agreed: from now on data may move.
  virtual void start(Transport& transport, Workspace& workspace) = 0;
  /// Makes progress without waiting. Returns whether the operation is complete and its outputs are written.
  [[nodiscard]] virtual bool advance(Transport& transport, Workspace& workspace) = 0;
  /// Null until all remaining work is enqueued on CUDA streams. From then on, this work, which proceeds even if no
  /// thread calls `advance`.
  [[nodiscard]] virtual const StreamWork* on_streams() const noexcept { return nullptr; }
  /// The error that the ranks have found together during the operation, the same on every rank; null if there is none.
  /// Read when the operation is done: by then no data of the operation moves any more.
  [[nodiscard]] virtual const Failure* failure() const noexcept { return nullptr; }
  /// How far the data has moved. By default this is the count of `transport`.
  [[nodiscard]] virtual DataProgress progress(const Transport& transport) const noexcept {
    const TransferCount count = transport.count();
    return {count.completed, count.moved_bytes, count.started_bytes};
  }
  /// Ranks from which this rank still awaits data.
  [[nodiscard]] virtual std::vector<int> awaited_ranks() const = 0;
  /// The reason for the wait, as a phrase for errors. Used if no rank is known to cause the wait.
  [[nodiscard]] virtual std::string_view awaited() const { return "a message did not arrive"; }
  /// Called if the operation failed and will not be advanced any more. Memory that a late message or a late rank may
  /// access is left to the transport, or leaked. Returns true if a rank may still access memory of the node that later
  /// operations would share; the communicator then stops working.
  [[nodiscard]] virtual bool abandon(Transport& transport) noexcept = 0;
  /// Whether `abandon` is reliable even after `start` or `advance` has thrown, that is, whether the operation still
  /// knows which of its data may move. If so, the communicator works again in the next epoch.
  [[nodiscard]] virtual bool survives_faults() const noexcept { return false; }

  /// Whether ranks may move data of the operation by transfers. If not, all data is in shared memory, or travels in the
  /// messages of the agreement.
  [[nodiscard]] virtual bool uses_transfers() const noexcept { return true; }

  /// Whether the operation can be posted again when it is done.
  [[nodiscard]] virtual bool is_reusable() const noexcept { return false; }

  /// Acquires the operation for one run. Returns false if it is already acquired. Thread-safe, like `release`.
  [[nodiscard]] bool try_acquire() noexcept {
    if (in_use_.exchange(true, std::memory_order_acquire)) return false;
    is_agreed_ = is_done_ = false;
    error_ = nullptr;
    return true;
  }
  /// The memory that the operation uses, which requests store here for all runs. Only the holder of the acquired
  /// operation calls this.
  [[nodiscard]] UsedMemory& memory() noexcept { return memory_; }
  void release() noexcept { in_use_.store(false, std::memory_order_release); }

  /// Sets the timeout of this call; zero: the communicator's timeout applies. Called before the operation is posted.
  void set_fail_after(std::chrono::milliseconds fail_after) noexcept { fail_after_ = fail_after; }
  /// The timeout of this call, or `otherwise` if the call has none.
  [[nodiscard]] std::chrono::milliseconds fail_after(std::chrono::milliseconds otherwise) const noexcept {
    return fail_after_.count() > 0 ? fail_after_ : otherwise;
  }

  /// Sets the waiting time after which the missing ranks are logged; zero: the communicator's value applies. Called
  /// before the operation is posted.
  void set_warn_after(std::chrono::milliseconds warn_after) noexcept { warn_after_ = warn_after; }
  [[nodiscard]] std::chrono::milliseconds warn_after(std::chrono::milliseconds otherwise) const noexcept {
    return warn_after_.count() > 0 ? warn_after_ : otherwise;
  }

  // The state of the operation in the engine. The engine calls the following functions under its lock.

  /// Called when the operation is posted, in `epoch`. `merges` is the count of merge_call calls on this rank at that
  /// time, and `arguments` has further arguments of the caller; the ranks compare both.
  void enter(std::uint64_t epoch, const MergeCount& merges, const CallerArguments& arguments) noexcept {
    epoch_ = epoch;
    descriptor_.merges = merges;
    if (std::exchange(arguments_, arguments.hash) == arguments.hash) return;
    descriptor_.arguments = arguments.text;
    record_.call = 0;
    record_.metered_call = 0;
  }
  /// Called before the agreement. `completed` is the number of operations that this rank had completed before the
  /// epoch, and `history` a hash of their numbers by epoch; the ranks compare `history`.
  void place_after(std::int64_t completed, std::uint64_t history) noexcept {
    descriptor_.completed_before = completed;
    descriptor_.history = history;
    descriptor_.hash = hash_after(own_hash_, descriptor_.merges, descriptor_.is_recovery ? 0 : history, arguments_);
  }
  /// Makes the ranks agree even if they have completed different numbers of operations. Only for an operation that has
  /// a single run.
  void set_recovery() noexcept { descriptor_.is_recovery = true; }
  /// The epoch in which the operation was posted.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// Called when all ranks have arrived and make the same call.
  void agree() noexcept { is_agreed_ = true; }
  [[nodiscard]] bool is_agreed() const noexcept { return is_agreed_; }
  /// Ends this run. `error` is null if the operation has succeeded.
  void finish(SharedError error) noexcept {
    error_ = std::move(error);
    is_done_ = true;
    if (has_ended_ != nullptr) *std::exchange(has_ended_, nullptr) = true;
  }
  /// The end of this run sets `has_ended`. Called while the operation is posted and not done.
  void tell_end(bool& has_ended) noexcept { has_ended_ = &has_ended; }
  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  [[nodiscard]] const SharedError& error() const noexcept { return error_; }
  /// Makes the end of this run call `observer`. Called when the operation is acquired, but not posted yet.
  void observe_end(std::unique_ptr<EndObserver> observer) noexcept { observer_ = std::move(observer); }
  /// Calls the observer, if there is one. Costs one branch otherwise.
  void notify_end(std::int64_t sequence, const Error* error) noexcept {
    if (observer_ != nullptr) std::exchange(observer_, nullptr)->on_end(epoch_, sequence, error);
  }
  /// Used by Recorder only.
  [[nodiscard]] RecordPlace& record() noexcept { return record_; }

 private:
  Descriptor descriptor_;
  std::uint64_t own_hash_;
  std::uint64_t arguments_ = 0;  // hash of the caller's arguments of this run
  std::uint64_t epoch_ = 0;
  bool is_agreed_ = false;
  bool is_done_ = false;
  bool* has_ended_ = nullptr;  // see tell_end
  std::uintptr_t place_ = 0;
  RecordPlace record_;
  std::atomic<bool> in_use_{false};
  std::chrono::milliseconds fail_after_{0};
  std::chrono::milliseconds warn_after_{0};
  SharedError error_;
  std::unique_ptr<EndObserver> observer_;
  UsedMemory memory_;
};

/// Holds an acquired operation; the destructor releases the operation.
class OperationUse {
 public:
  explicit OperationUse(std::shared_ptr<Operation> acquired) noexcept : operation_(std::move(acquired)) {}
  OperationUse(OperationUse&&) noexcept = default;
  OperationUse(const OperationUse&) = delete;
  OperationUse& operator=(const OperationUse&) = delete;
  ~OperationUse() {
    if (operation_ != nullptr) operation_->release();
  }
  [[nodiscard]] const std::shared_ptr<Operation>& operation() const noexcept { return operation_; }

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace lockstep::detail
