// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// transport/shm for simulated ranks: they are coroutines of one process, so every address of one rank is valid for all
// others. Only ranks of one simulated node use that.

#include <lockstep/device/arena.hpp>

#include "cluster/place.hpp"
#include "transport/shm/control_queues.hpp"
#include "transport/shm/node_group.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace lockstep::detail {
namespace {

/// The memory by which the other ranks of the node see a rank. Never freed, since ranks end at different times.
struct RankEnd {
  ControlBlock control_block;
  std::atomic<Departure> departure{Departure::none};
};

void free_memory(void* data, std::size_t) { ::operator delete(data, std::align_val_t{control_block_alignment}); }

class SimulatedGroup final : public NodeGroup {
 public:
  SimulatedGroup(int rank, std::vector<Member> members, std::shared_ptr<const Levels> levels,
                 std::vector<RankEnd*> ends)
      : NodeGroup(rank, std::move(members), std::move(levels)), ends_(std::move(ends)) {}
  ~SimulatedGroup() override {
    take_memory().leak();  // another rank may still read it
    depart(Departure::orderly);
  }
  void depart(Departure how) noexcept final {
    auto none = Departure::none;
    end_of(rank()).departure.compare_exchange_strong(none, how);
  }
  Departure departure_of(int member) const noexcept override { return end_of(member).departure.load(); }
  NodeAddress address_of(const void* data, std::size_t) const noexcept override {
    return static_cast<NodeAddress>(reinterpret_cast<std::uintptr_t>(data));
  }
  std::uint64_t unshares() const noexcept override { return 0; }
  bool can_unshare() const noexcept override { return false; }
  void unshare(std::span<const std::span<std::byte>>) noexcept override {}
  std::byte* resolve(int, NodeAddress address, std::size_t) const override {
    return reinterpret_cast<std::byte*>(address);
  }
  NodeMemory allocate(std::size_t bytes) const override {
    return {::operator new(bytes, std::align_val_t{control_block_alignment}), bytes, free_memory};
  }

 private:
  [[nodiscard]] RankEnd& end_of(int member) const { return *ends_[static_cast<std::size_t>(member)]; }
  std::vector<RankEnd*> ends_;
};

}  // namespace

struct ProcessGroupOffer::Parts {
  NodeIntroduction introduction;
  std::unique_ptr<NodeGroup> group;
};

ProcessGroupOffer::ProcessGroupOffer(bool share_memory, const NodePlace& place) : parts_(std::make_unique<Parts>()) {
  if (share_memory) parts_->introduction.control_block = reinterpret_cast<std::uintptr_t>(new RankEnd);
  parts_->introduction.place = place;
}
ProcessGroupOffer::~ProcessGroupOffer() = default;
const NodeIntroduction& ProcessGroupOffer::introduction() const noexcept { return parts_->introduction; }

bool ProcessGroupOffer::open(int rank, std::span<const NodeIntroduction> members) {
  std::vector<NodeGroup::Member> blocks;
  std::vector<RankEnd*> ends;
  for (const NodeIntroduction& member : members) {
    if (member.control_block == 0) return false;
    ends.push_back(reinterpret_cast<RankEnd*>(member.control_block));
    blocks.push_back({&ends.back()->control_block, nullptr, 0});
  }
  // never freed, as the ends
  auto* const queues = static_cast<std::byte*>(
      ::operator new(ControlQueueMemory::bytes(members.size()), std::align_val_t{control_block_alignment}));
  ControlQueueMemory::begin(queues, members.size());
  blocks[static_cast<std::size_t>(rank)].control_block->queues.value = reinterpret_cast<std::uintptr_t>(queues);
  std::vector<NodePlace> places;
  for (const NodeIntroduction& member : members) places.push_back(member.place);
  parts_->group = std::make_unique<SimulatedGroup>(rank, std::move(blocks), std::make_shared<const Levels>(places),
                                                   std::move(ends));
  return true;
}

std::unique_ptr<NodeGroup> ProcessGroupOffer::take() { return std::move(parts_->group); }
void ProcessGroupOffer::withdraw() noexcept {}

std::size_t page_bytes() noexcept { return 4096; }

NodePlace place_of_this_process() { return {}; }

}  // namespace lockstep::detail

lockstep::ArenaStatus lockstep::arena_status() { return {}; }
