// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A node group whose members are processes, each with an arena that all of them map.

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "device/host/arena.hpp"
#include "device/host/memory_resources.hpp"
#include "transport/shm/node_group.hpp"

#include <atomic>
#include <list>
#include <map>
#include <new>

namespace lockstep::detail {
namespace {

void free_in_arena(void* data, std::size_t bytes) { Arena::of_this_process().deallocate(data, bytes); }

/// The offset of the control block in a block that contains it.
std::size_t control_block_offset(std::size_t block) {
  return (block + control_block_alignment - 1) / control_block_alignment * control_block_alignment - block;
}

/// Set by a member when it has left the group for good. One cache line per group and member that is never reused, so
/// that the other members can read it at any time.
using Closed = std::atomic<std::uint32_t>;

/// The data by which the other members find a member; sent as bytes.
struct Introduction {
  SegmentName segment;
  std::uint64_t control_block = 0;  // offset
  std::uint64_t closed = 0;         // offset
};

/// The mappings of other processes' segments: one per segment, shared by all groups.
std::shared_ptr<SharedSegment> segment_of(const SegmentName& name, std::string& why) {
  static Mutex mutex;
  static auto* const known LOCKSTEP_PT_GUARDED_BY(mutex) = new std::map<std::uint64_t, std::weak_ptr<SharedSegment>>;
  const MutexLock lock(mutex);
  std::weak_ptr<SharedSegment>& entry = (*known)[name.nonce];
  if (auto segment = entry.lock()) return segment;
  auto segment = SharedSegment::open(name, why);
  entry = segment;
  return segment;
}

/// The memory of a group that this process has left, which must be kept until all members have left it.
struct Remains {
  std::vector<std::shared_ptr<SharedSegment>> segments;
  std::vector<Closed*> closed;
  std::vector<NodeMemory> memory;
};

/// Frees the memory of groups that all members have left, and adds `remains` to the list.
void free_when_left(Remains&& remains) {
  static Mutex mutex;
  static auto* const waiting LOCKSTEP_PT_GUARDED_BY(mutex) = new std::list<Remains>;
  const MutexLock lock(mutex);
  waiting->push_back(std::move(remains));
  waiting->remove_if([](const Remains& left) {
    for (const Closed* const closed : left.closed) {
      if (closed->load(std::memory_order_acquire) == 0) return false;
    }
    return true;
  });
}

class ProcessGroup final : public NodeGroup {
 public:
  ProcessGroup(int rank, const std::vector<Member>& members, Remains&& owned)
      : NodeGroup(rank, members), owned_(std::move(owned)) {}

  ~ProcessGroup() override {
    owned_.memory.push_back(std::move(staging().inputs));
    owned_.memory.push_back(std::move(staging().results));
    owned_.closed[static_cast<std::size_t>(rank())]->store(1, std::memory_order_release);
    free_when_left(std::move(owned_));
  }

  NodeAddress address_of(const void* data, std::size_t bytes) const noexcept override {
    const Member& own = member(rank());
    const auto* const begin = static_cast<const std::byte*>(data);
    const auto offset = static_cast<std::size_t>(begin - own.base);
    if (begin < own.base || offset >= own.size || bytes > own.size - offset) return NodeAddress::none;
    return static_cast<NodeAddress>(offset);  // never 0: a segment begins with its header
  }

  std::byte* resolve(int rank, NodeAddress address, std::size_t bytes) const override {
    const auto offset = static_cast<std::uint64_t>(address);
    const Member& other = member(rank);
    if (offset == 0 || offset >= other.size || bytes > other.size - offset) {
      throw_error(Code::internal,
                  "rank {} sent the address of {} bytes at {:#x}, which is outside of its shared memory", rank, bytes,
                  offset);
    }
    return other.base + offset;
  }

  NodeMemory allocate(std::size_t bytes) const override {
    void* const block = Arena::of_this_process().allocate(bytes);
    return block == nullptr ? NodeMemory() : NodeMemory(block, bytes, free_in_arena);
  }

  void retire(NodeMemory&& memory) override { owned_.memory.push_back(std::move(memory)); }

 private:
  Remains owned_;
};

}  // namespace

std::unique_ptr<NodeGroup> make_process_group(int rank, int size, bool share_memory, const ExchangeFunction& exchange,
                                              std::string& why) {
  Arena& arena = Arena::of_this_process();
  Introduction mine;
  Remains owned;
  if (!share_memory) {
    why = "it is disabled";
  } else if (const auto& segment = arena.segment()) {
    const std::size_t bytes = sizeof(ControlBlock) + control_block_alignment;
    void* const block = arena.allocate(bytes);
    void* const closed = arena.allocate(sizeof(Closed));
    if (block != nullptr && closed != nullptr) {
      owned.memory.emplace_back(block, bytes, free_in_arena);
      new (closed) Closed(0);
      const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(block) - segment->data());
      mine = {segment->name(), begin + control_block_offset(begin),
              static_cast<std::uint64_t>(static_cast<std::byte*>(closed) - segment->data())};
      new (segment->data() + mine.control_block) ControlBlock();
    } else {
      why = "the arena is full: " + arena.status().text;
    }
  } else {
    why = arena.status().text;
  }

  const auto ranks = static_cast<std::size_t>(size);
  std::vector<Introduction> all(ranks);
  exchange(&mine, all.data(), sizeof(Introduction));
  std::vector<NodeGroup::Member> members(ranks);
  bool is_complete = true;
  for (std::size_t i = 0; i < ranks && is_complete; ++i) {
    std::shared_ptr<SharedSegment> segment;
    if (i == static_cast<std::size_t>(rank)) {
      segment = arena.segment();
    } else if (all[i].segment.nonce != 0) {
      segment = segment_of(all[i].segment, why);
    }
    is_complete = segment != nullptr && all[i].segment.nonce != 0;
    if (!is_complete) break;
    members[i] = {reinterpret_cast<ControlBlock*>(segment->data() + all[i].control_block), segment->data(),
                  segment->size()};
    owned.closed.push_back(reinterpret_cast<Closed*>(segment->data() + all[i].closed));
    owned.segments.push_back(std::move(segment));
  }
  const std::uint8_t ready = is_complete ? 1 : 0;
  std::vector<std::uint8_t> all_ready(ranks);
  exchange(&ready, all_ready.data(), 1);
  for (std::size_t i = 0; i < ranks; ++i) {
    if (all_ready[i] != 0) continue;
    if (why.empty()) why = "rank " + std::to_string(i) + " of the node cannot share memory";
    return nullptr;
  }
  offer_default_memory_resource(arena_memory_resource());
  return std::make_unique<ProcessGroup>(rank, members, std::move(owned));
}

}  // namespace lockstep::detail
