// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks of this rank's node are gone: they have destroyed their end of the communicator, or their process has
// ended. Ranks of other nodes learn that by a control message. A rank of any node that ends without ever having made
// its end of the communicator says so itself. A process in another pid namespace, such as that of another container, is
// not watched: its rank is gone only when it has destroyed its end.

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
#include <vector>

namespace lockstep::detail {

/// Not thread-safe: the engine calls under its lock. Looks only while something waits, some times a second.
class Presence {
 public:
  using Clock = std::chrono::steady_clock;

  /// A rank that is gone. If it has left in order, it has completed all operations at which it had arrived.
  struct Gone {
    int rank = -1;
    bool has_left = false;
    std::string text;         ///< "rank 2 has exited"
    Clock::time_point since;  ///< when this rank noticed
  };

  /// All must outlive it.
  Presence(Transport& transport, const ControlChannel& control, const Agreement& agreement,
           const OperationQueue& queue);

  /// Looks for ranks that are gone, unless that was done a moment ago.
  void look(Clock::time_point now);
  [[nodiscard]] std::span<const Gone> gone() const noexcept { return gone_; }
  /// The failure of the head of the queue if it waits for a rank that is gone, and the messages that this rank may have
  /// sent before have had the time to arrive. The lowest rank of the node that is present is the first to report it.
  [[nodiscard]] std::optional<Failure> failure_of_head(std::uint64_t epoch, Clock::time_point now);
  /// Time in which messages of a rank that is gone still arrive.
  static constexpr std::chrono::milliseconds message_time{150};

 private:
  /// A rank of the node that is not known to be gone.
  struct Member {
    int rank;
    int index;  // in the node group
    std::shared_ptr<const ProcessWatch> process;
  };
  [[nodiscard]] std::optional<Gone> state_of(const Member& member, Clock::time_point now) const;
  [[nodiscard]] bool is_awaited(const Gone& one, std::uint64_t epoch) const;

  Transport& transport_;
  const ControlChannel& control_;
  const Agreement& agreement_;
  const OperationQueue& queue_;
  const NodeGroup* group_;  // null: only processes are watched
  std::vector<Member> members_;
  std::vector<Gone> gone_;
  std::size_t known_left_ranks_ = 0;  // of ControlChannel::left_ranks
  Clock::time_point next_look_;
};

}  // namespace lockstep::detail
