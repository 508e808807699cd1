// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One collective on its way through the engine.

#pragma once

#include "collectives/control_message.hpp"
#include "transport/buffer.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <exception>
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
class Operation {
 public:
  explicit Operation(const Descriptor& descriptor) : descriptor_(descriptor) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  [[nodiscard]] const Descriptor& descriptor() const noexcept { return descriptor_; }

  /// All ranks agree: data may move. Called once.
  virtual void start(Transport& transport, Workspace& workspace) = 0;
  /// Moves on without waiting; whether all is done and the outputs are written.
  [[nodiscard]] virtual bool advance(Transport& transport, Workspace& workspace) = 0;
  /// Whether a message of this operation may still be under way.
  [[nodiscard]] virtual bool has_open_transfers() const noexcept = 0;
  /// Ranks whose data is missing.
  [[nodiscard]] virtual std::vector<int> awaited_ranks() const = 0;
  /// Will never be advanced again: memory that a late message may touch goes into quarantine.
  virtual void abandon(Transport& transport) noexcept = 0;

  // The engine's notes, under its lock.
  std::uint64_t epoch = 0;  ///< in which it was posted
  bool agreed = false;
  bool done = false;
  std::exception_ptr error;  ///< set before `done` when the operation failed

 private:
  Descriptor descriptor_;
};

}  // namespace lockstep::detail
