// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the operations that all ranks call, before any data moves.

#pragma once

#include "collectives/engine/control_message.hpp"
#include "collectives/engine/operation.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// The agreement on one operation at a time. After its last step every rank holds the same summary, so all reach the
/// same result. Not thread-safe: the engine calls under its lock.
class Agreement {
 public:
  Agreement() = default;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  virtual ~Agreement() = default;

  [[nodiscard]] bool is_open() const noexcept { return open_; }
  /// This rank has arrived at operation `sequence` of `epoch`, which is `head`.
  void open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
    open_ = true;
    do_open(epoch, sequence, head);
  }
  void close() noexcept { open_ = false; }
  /// Whether other ranks may have seen that this one has arrived at the operation.
  [[nodiscard]] bool is_shown() const noexcept { return open_ && do_is_shown(); }
  /// All operations of earlier epochs are over for this rank.
  virtual void enter_epoch(std::uint64_t) noexcept {}
  /// Makes progress without waiting; returns whether all ranks have arrived. If they make the same call, its carried
  /// data has then been delivered.
  [[nodiscard]] virtual bool advance() = 0;
  /// After the last step: whether all ranks make the same call.
  [[nodiscard]] virtual bool all_agree() const = 0;
  [[nodiscard]] virtual Summary summary() const = 0;
  /// Whether `rank` is known to have arrived at this operation or a later one of this epoch.
  [[nodiscard]] virtual bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const = 0;
  /// The last operation of `epoch` at which `rank` is known to have arrived; -1 if none.
  [[nodiscard]] virtual std::int64_t last_sequence(int rank, std::uint64_t epoch) const = 0;
  /// The ranks that wait for a message of this one in every operation, and the number of ranks that send it one.
  struct HeaderPeers {
    std::vector<int> targets;
    int sources = 0;
  };
  [[nodiscard]] virtual HeaderPeers header_peers() const { return {}; }
  /// Whether this rank waits for messages, not for memory of the node.
  [[nodiscard]] virtual bool awaits_messages() const noexcept { return false; }
  /// This rank abandons the operation; a rank that arrives late must not touch its memory.
  virtual void abandon() noexcept = 0;

 private:
  virtual void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) = 0;
  [[nodiscard]] virtual bool do_is_shown() const noexcept { return true; }
  bool open_ = false;
};

}  // namespace lockstep::detail
