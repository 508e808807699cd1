// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A node group whose members are threads of one process.

#include "transport/shm/control_queues.hpp"
#include "transport/shm/node_group.hpp"

#include <atomic>
#include <cstdint>
#include <new>

namespace lockstep::detail {
namespace {

void free_on_heap(void* data, std::size_t) { ::operator delete(data, std::align_val_t{control_block_alignment}); }

/// The objects that the groups of all threads own jointly.
struct Shared {
  explicit Shared(int size)
      : control_blocks(static_cast<std::size_t>(size)),
        departures(static_cast<std::size_t>(size)),
        of_closed_ends(static_cast<std::size_t>(size)) {
    const std::size_t bytes = ControlQueueMemory::bytes(control_blocks.size());
    queues.reserve(control_blocks.size());
    for (ControlBlock& control_block : control_blocks) {
      queues.emplace_back(::operator new(bytes, std::align_val_t{control_block_alignment}), bytes, free_on_heap);
      ControlQueueMemory::begin(queues.back().data(), control_blocks.size());
      control_block.queues.value = reinterpret_cast<std::uintptr_t>(queues.back().data());
    }
  }
  std::vector<ControlBlock> control_blocks;
  std::vector<NodeMemory> queues;  // by sender
  std::vector<std::atomic<Departure>> departures;
  std::vector<MemoryOfGroup> of_closed_ends;  // by rank
};

class ThreadGroup final : public NodeGroup {
 public:
  ThreadGroup(int rank, const std::vector<Member>& members, std::shared_ptr<const Levels> levels,
              std::shared_ptr<Shared> shared)
      : NodeGroup(rank, members, std::move(levels)), shared_(std::move(shared)) {}

  ~ThreadGroup() override {
    shared_->of_closed_ends[static_cast<std::size_t>(rank())] = take_memory();
    depart(Departure::orderly);
  }

  void depart(Departure how) noexcept final {
    std::atomic<Departure>& own = shared_->departures[static_cast<std::size_t>(rank())];
    if (own.load(std::memory_order_relaxed) == Departure::none) own.store(how, std::memory_order_release);
  }
  Departure departure_of(int member) const noexcept override {
    return shared_->departures[static_cast<std::size_t>(member)].load(std::memory_order_acquire);
  }

  NodeAddress address_of(const void* data, std::size_t) const noexcept override {
    return static_cast<NodeAddress>(reinterpret_cast<std::uintptr_t>(data));
  }
  std::uint64_t unshares() const noexcept override { return 0; }
  bool can_unshare() const noexcept override { return false; }
  void unshare(std::span<const std::span<std::byte>>) noexcept override {}
  std::byte* resolve(int, NodeAddress address, std::size_t) const override {
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): made from a pointer
  }
  NodeMemory allocate(std::size_t bytes) const override {
    return {::operator new(bytes, std::align_val_t{control_block_alignment}), bytes, free_on_heap};
  }

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::vector<std::unique_ptr<NodeGroup>> make_thread_groups(int size, std::span<const NodePlace> places) {
  const auto shared = std::make_shared<Shared>(size);
  std::vector<NodeGroup::Member> members;
  for (ControlBlock& control_block : shared->control_blocks) members.push_back({&control_block, nullptr, 0});
  const auto levels = std::make_shared<const Levels>(size, places);
  std::vector<std::unique_ptr<NodeGroup>> groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(std::make_unique<ThreadGroup>(rank, members, levels, shared));
  return groups;
}

}  // namespace lockstep::detail
