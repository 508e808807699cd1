// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One collective on its way through the engine.

#pragma once

#include "collectives/engine/control_message.hpp"
#include "transport/buffer.hpp"
#include "transport/shm/control_block.hpp"
#include "transport/transport.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Buffers that operations stage data in, kept between operations so that a steady program allocates nothing.
class Workspace {
 public:
  /// A buffer of at least `bytes` bytes, contents unspecified.
  [[nodiscard]] Buffer take(std::size_t bytes);
  void give_back(Buffer&& buffer);

 private:
  std::vector<Buffer> spare_;
};

/// Driven under the engine's lock. Life: posted; agreed on (by the engine); started; advanced until done, or abandoned.
/// One that is reusable lives again when it is acquired again.
class Operation {
 public:
  explicit Operation(const Descriptor& descriptor) : descriptor_(descriptor), own_hash_(descriptor.hash) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  [[nodiscard]] const Descriptor& descriptor() const noexcept { return descriptor_; }
  /// To be compared with those of the other ranks. Before the agreement.
  void note_merges(const MergeCount& merges) noexcept {
    descriptor_.merges = merges;
    descriptor_.hash = hash_after(own_hash_, merges);
  }

  /// The line of this rank's call: shown, not compared. Before the agreement.
  void note_place(const std::source_location& where) noexcept {
    const auto place = reinterpret_cast<std::uintptr_t>(where.file_name()) + where.line();
    if (std::exchange(place_, place) != place) set_place(descriptor_, where);
  }
  /// Tells one such line from another.
  [[nodiscard]] std::uintptr_t place() const noexcept { return place_; }

  /// On a node with shared memory: this rank comes to the operation. What others need to know of its buffers goes into
  /// `arrival`. Called once per life, before the agreement.
  virtual void arrive(std::uint64_t tag, Arrival& arrival) {
    static_cast<void>(tag);
    static_cast<void>(arrival);
  }
  /// All ranks agree: data may move. Called once per life.
  virtual void start(Transport& transport, Workspace& workspace) = 0;
  /// Moves on without waiting; whether all is done and the outputs are written.
  [[nodiscard]] virtual bool advance(Transport& transport, Workspace& workspace) = 0;
  /// Whether all that is left happens on GPUs' streams, whether anybody drives or not. From then on true.
  [[nodiscard]] virtual bool is_on_streams() const noexcept { return false; }
  /// What comes later on `stream`, one of CUDA's, waits for its end there. Where is_on_streams(); without the engine's
  /// lock.
  virtual void hold_back(void* /*stream*/) const {}
  /// What was found wrong on the way, the same on every rank; nothing of it moves any more when it is done. Null when
  /// all is well.
  [[nodiscard]] virtual const Failure* failure() const noexcept { return nullptr; }
  /// Ranks whose data is missing.
  [[nodiscard]] virtual std::vector<int> awaited_ranks() const = 0;
  /// What is, where no rank is known to be the cause.
  [[nodiscard]] virtual std::string_view awaited() const { return "a message did not arrive"; }
  /// Will never be advanced again: memory that a late message or rank may touch goes into quarantine. Whether there is
  /// such a message or rank.
  [[nodiscard]] virtual bool abandon(Transport& transport) noexcept = 0;
  /// Whether `abandon` knows what still moves even after `start` or `advance` has thrown: then the communicator works
  /// again in the next epoch.
  [[nodiscard]] virtual bool survives_faults() const noexcept { return false; }

  /// Whether it can be posted again when it is done.
  [[nodiscard]] virtual bool is_reusable() const noexcept { return false; }

  /// Takes the operation for one life; false when somebody has it. Thread-safe, as `release` is.
  [[nodiscard]] bool try_acquire() noexcept {
    if (in_use_.exchange(true, std::memory_order_acquire)) return false;
    agreed = done = false;
    error = nullptr;
    return true;
  }
  void release() noexcept { in_use_.store(false, std::memory_order_release); }

  // The engine's notes, under its lock.
  std::uint64_t epoch = 0;  ///< in which it was posted
  bool agreed = false;
  bool done = false;
  std::chrono::milliseconds fail_after{0};  ///< of this call; zero: the engine's
  std::exception_ptr error;                 ///< set before `done` when the operation failed

 private:
  Descriptor descriptor_;
  std::uint64_t own_hash_;
  std::uintptr_t place_ = 0;
  std::atomic<bool> in_use_{false};
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
