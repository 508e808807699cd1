// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the calls of all ranks before any data moves.

#pragma once

#include "collectives/engine/control_message.hpp"
#include "collectives/engine/operation.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// The agreement on one operation at a time. When it is complete, every rank knows whether the calls of all ranks are
/// equal, so all ranks come to the same result. Not thread-safe: called under the engine's lock.
class Agreement {
 public:
  Agreement() = default;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  virtual ~Agreement() = default;

  [[nodiscard]] bool is_open() const noexcept { return open_; }
  /// Begins the agreement on `head`, which is operation `sequence` of `epoch`. This rank has arrived at `head`.
  void open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
    open_ = true;
    do_open(epoch, sequence, head);
  }
  void close() noexcept { open_ = false; }
  /// Whether other ranks may have seen that this rank has arrived at the operation.
  [[nodiscard]] bool is_shown() const noexcept { return open_ && do_is_shown(); }
  /// Called when an epoch begins: this rank does not take part in operations of earlier epochs any more.
  virtual void enter_epoch(std::uint64_t) noexcept {}
  /// Makes progress without waiting. Returns whether the agreement is complete, that is, all ranks have arrived. If all
  /// ranks make the same call, the data that travels with the agreement has been delivered by then.
  [[nodiscard]] virtual bool advance() = 0;
  /// Whether all ranks make the same call. Called when the agreement is complete.
  [[nodiscard]] virtual bool all_agree() const = 0;
  /// Two of the calls that differ, if the ranks do not agree.
  [[nodiscard]] virtual Summary summary() const = 0;
  /// Whether `rank` is known to have arrived at operation `sequence` of `epoch`, or at a later operation.
  [[nodiscard]] virtual bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const = 0;
  /// The last operation of `epoch` at which `rank` is known to have arrived; -1 if there is none.
  [[nodiscard]] virtual std::int64_t last_sequence(int rank, std::uint64_t epoch) const = 0;
  /// While the agreement is not complete: the ranks for which this rank waits. It sees itself that they have not
  /// arrived, or have not gone on.
  [[nodiscard]] virtual std::vector<int> awaited() const = 0;
  /// The ranks to which this rank sends a message of the agreement (AgreementHeader) in every operation, and the ranks
  /// that send such messages to this rank.
  struct HeaderPeers {
    std::vector<int> targets;
    std::vector<int> sources;
  };
  [[nodiscard]] virtual HeaderPeers header_peers() const { return {}; }
  /// Whether this rank waits for messages, rather than for flags in the memory of the node.
  [[nodiscard]] virtual bool awaits_messages() const noexcept { return false; }
  /// Abandons the operation: a rank that arrives late must not access memory of this rank.
  virtual void abandon() noexcept = 0;

 private:
  virtual void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) = 0;
  [[nodiscard]] virtual bool do_is_shown() const noexcept { return true; }
  bool open_ = false;
};

}  // namespace lockstep::detail
