// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The remains of failed operations: requests that are not complete yet, with their memory, and messages that no
// operation will receive. A send completes only when its message is received. So each rank receives, and drops, the
// messages of earlier epochs.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "transport/buffer.hpp"

#include <cstddef>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe.
class StaleTransfers {
 public:
  StaleTransfers() { tags_.reserve(most_tags + 1); }
  StaleTransfers(const StaleTransfers&) = delete;
  StaleTransfers& operator=(const StaleTransfers&) = delete;
  /// Leaks the memory that MPI may still access.
  ~StaleTransfers();

  /// Frees `buffers` when all `requests` are complete.
  void keep(std::vector<MPI_Request>&& requests, std::vector<Buffer>&& buffers);
  /// From now on, messages with tag `old` are dropped, and messages with tag `now` are not.
  void change_tag(int old, int now) noexcept;
  /// Drops all messages with `tag` that have arrived. Called before the first transfers of an epoch whose tag an
  /// earlier epoch has used: that epoch is long over, but its tag may have been forgotten, or not probed since.
  void drop_all(MPI_Comm comm, int tag);
  [[nodiscard]] bool has_work() const noexcept { return !tags_.empty() || !kept_.empty(); }
  /// Makes progress without waiting. `comm` is the communicator of all these transfers.
  void advance(MPI_Comm comm);

 private:
  /// Maximum number of tags to remember. If there are more failed epochs, the oldest tags are forgotten. A rank that
  /// still sends with a forgotten tag has not noticed any of the last `most_tags` failures.
  static constexpr std::size_t most_tags = 64;
  static constexpr std::size_t most_dropped_at_once = 8;

  struct Kept {
    std::vector<MPI_Request> requests;
    std::vector<Buffer> buffers;
  };

  static void free_complete(std::vector<Kept>& list);
  [[nodiscard]] bool drop_one(MPI_Comm comm, int tag);

  std::vector<int> tags_;  // the tag to be probed next is first; never more than it has room for
  std::vector<Kept> kept_;
  std::vector<Kept> dropped_;  // messages that are being received in order to be dropped
};

}  // namespace lockstep::detail
