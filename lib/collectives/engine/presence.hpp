// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the ranks that are gone. A rank is gone if it has destroyed its end of the communicator, or if its process has
// ended. A rank watches the ranks of its own node; the ranks of other nodes get a control message. A rank of any node
// that ends without ever having made its end of the communicator reports this itself. A process in another pid
// namespace, such as that of another container, is not watched: its rank is gone only when it has destroyed its end.

#pragma once

#include "base/process.hpp"
#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/operation_queue.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe: called under the engine's lock. Checks several times per second, and only while something waits.
class Presence {
 public:
  using Clock = std::chrono::steady_clock;

  /// A rank that is gone. `has_left`: the rank destroyed its end, so it had completed all operations at which it
  /// arrived.
  struct Gone {
    int rank = -1;
    bool has_left = false;
    std::string text;         ///< "rank 2 has exited"
    Clock::time_point since;  ///< when this rank detected it
    /// Epoch and number of an operation: the rank is known to have arrived at all operations before. The failures by
    /// which the epochs before have ended are on their way.
    std::pair<std::uint64_t, std::int64_t> first_missed = {};
    bool is_told = false;     ///< the ranks of other nodes know that its process has ended
    bool is_cut_off = false;  ///< its connection to this rank has ended: nothing more comes from it
  };

  /// All references must outlive this object.
  Presence(Transport& transport, ControlChannel& control, const Agreement& agreement, const OperationQueue& queue);

  /// Checks which ranks are gone, unless the last check was a moment ago.
  void look(Clock::time_point now);
  [[nodiscard]] std::span<const Gone> gone() const noexcept { return gone_; }
  /// The failure of the head of the queue, if the head waits for a rank that is gone. Messages that the rank sent
  /// before its end may still be on their way, so the failure is returned only after a delay, unless the head waits
  /// for data of the rank, which does not come after the end of its connection. The delay is shortest on the lowest
  /// remaining rank of the node, which therefore reports the failure first.
  [[nodiscard]] std::optional<Failure> failure_of_head(std::uint64_t epoch, Clock::time_point now);
  /// Time in which messages of a rank may still arrive after the rank is gone.
  static constexpr std::chrono::milliseconds message_time{150};

 private:
  /// A rank of the node that is not known to be gone.
  struct Member {
    int rank;
    int index;  // index in the node group
    std::shared_ptr<const ProcessEnd> process;
  };
  [[nodiscard]] std::optional<Gone> state_of(const Member& member, Clock::time_point now) const;
  [[nodiscard]] bool is_awaited(const Gone& one, std::uint64_t epoch, Clock::time_point now) const;
  /// Whether the head waits for data of `rank`.
  [[nodiscard]] bool is_source_of_head(int rank) const;
  [[nodiscard]] bool reports_first() const;
  void tell_deaths(std::uint64_t epoch, Clock::time_point now);

  Transport& transport_;
  ControlChannel& control_;
  const Agreement& agreement_;
  const OperationQueue& queue_;
  const NodeGroup* group_;  // null: only processes are watched
  bool all_see_deaths_;     // whether every rank watches the processes of all others
  std::vector<Member> members_;
  std::vector<Gone> gone_;
  std::size_t known_gone_ranks_ = 0;  // number of entries of ControlChannel::gone_ranks that are in gone_
  std::size_t known_losses_ = 0;
  Clock::time_point next_look_;
};

}  // namespace lockstep::detail
