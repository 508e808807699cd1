// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The failures that have ended epochs, in the memory of a node. A rank publishes a failure before a thread of it can
// throw the failure. So a rank that sees that another one has left, or has gone on to a later epoch, also finds why,
// however late the messages of other nodes are; and the ranks of a node throw the same failure, even if several of them
// detect one at the same time.

#pragma once

#include "collectives/engine/control_message.hpp"
#include "transport/shm/node_group.hpp"

#include <cstdint>
#include <optional>

namespace lockstep::detail {

/// The endpoint of one rank. Not thread-safe: called under the engine's lock. Without a group, it knows no failure.
class NodeFailures {
 public:
  /// `group` must outlive this object, or is null.
  explicit NodeFailures(NodeGroup* group) noexcept : group_(group) {}

  /// Publishes the end of `epoch` on this rank. Returns `own`, or the failure of the rank of this node that has
  /// published the end of this epoch first, with the sequence number of `own`.
  [[nodiscard]] EpochEnd publish(std::uint64_t epoch, const EpochEnd& own);
  /// The failure that a rank of this node has published for `epoch`, if that rank does not complete operation
  /// `sequence`; empty if there is none. The failures of the last two epochs of each rank are kept.
  [[nodiscard]] std::optional<Failure> find(std::uint64_t epoch, std::int64_t sequence) const;

 private:
  void write(std::uint64_t epoch, const EpochEnd& end, std::uint64_t state) noexcept;
  [[nodiscard]] std::optional<EpochEnd> first_end(std::uint64_t epoch) const;
  [[nodiscard]] std::optional<EpochEnd> read(int member, std::uint64_t epoch, std::uint64_t least) const;

  NodeGroup* group_;
};

}  // namespace lockstep::detail
