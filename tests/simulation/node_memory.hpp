// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The shared memory of a simulated node. As in processes, each rank sees the memory of all ranks of its node through
// mappings of its own, at other addresses than the others, and can take its memory away from them.

#pragma once

#include "transport/shm/node_group.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

namespace lockstep::simulation {

class NodeMemories {
 public:
  /// For `ranks` ranks. Their control blocks are made.
  explicit NodeMemories(int ranks);
  ~NodeMemories();
  NodeMemories(const NodeMemories&) = delete;
  NodeMemories& operator=(const NodeMemories&) = delete;

  /// The groups of the ranks, by rank. Each of them keeps `memories`.
  [[nodiscard]] static std::vector<std::unique_ptr<detail::NodeGroup>> groups(
      const std::shared_ptr<NodeMemories>& memories, std::span<const detail::NodePlace> places);

  /// Memory of `rank`, at its own addresses; null if there is none left.
  [[nodiscard]] std::byte* allocate(int rank, std::size_t bytes);
  void free(std::byte* data, std::size_t bytes) noexcept;

  /// The address of `data`, which is in the view of `rank` on its own memory, for other ranks.
  [[nodiscard]] detail::NodeAddress address_of(int rank, const void* data, std::size_t bytes) const noexcept;
  /// What `viewer` sees at `address` of `rank`.
  [[nodiscard]] std::byte* resolve(int viewer, int rank, detail::NodeAddress address, std::size_t bytes) const;
  void unshare(int rank, std::span<const std::span<std::byte>> ranges);
  [[nodiscard]] std::uint64_t unshares(int rank) const { return ranks_[static_cast<std::size_t>(rank)].unshares; }

  /// The memories that contain `data`, one of those that exist; null if there are none.
  [[nodiscard]] static NodeMemories* of(const void* data) noexcept;

  std::vector<std::atomic<detail::Departure>> departures;  ///< by rank

 private:
  static constexpr std::size_t bytes_of_rank = std::size_t{64} << 20;

  struct Rank {
    mutable std::mutex mutex;                 // as an arena has one: any thread of the rank may free a block
    std::map<std::size_t, std::size_t> free;  // sizes of free blocks, by offset
    std::set<std::size_t> private_pages;
    std::uint64_t unshares = 0;
  };
  [[nodiscard]] std::size_t bytes_of_view() const noexcept { return ranks_.size() * bytes_of_rank; }
  /// The memory of `rank` as `viewer` sees it.
  [[nodiscard]] std::byte* view(int viewer, int rank) const noexcept {
    return views_ + static_cast<std::size_t>(viewer) * bytes_of_view() + static_cast<std::size_t>(rank) * bytes_of_rank;
  }
  /// Whether these bytes are in the view of `rank` on its own memory.
  [[nodiscard]] bool contains(int rank, const void* data, std::size_t bytes) const noexcept;
  [[nodiscard]] bool has_private_page(int rank, std::size_t offset, std::size_t bytes) const noexcept;

  std::vector<Rank> ranks_;
  int file_ = -1;
  std::byte* views_ = nullptr;  // that of rank 0, then that of rank 1, and so on
};

}  // namespace lockstep::simulation
