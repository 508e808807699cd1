// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A node group whose members are processes, each with an arena that all of them map.

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "base/processor.hpp"
#include "device/host/arena.hpp"
#include "device/host/memory_resources.hpp"
#include "transport/shm/control_queues.hpp"
#include "transport/shm/node_group.hpp"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <new>

namespace lockstep::detail {
namespace {

void free_in_arena(void* data, std::size_t bytes) { Arena::of_this_process().deallocate(data, bytes); }

/// The distance from offset `block` to the next offset that is aligned for a control block.
std::size_t control_block_offset(std::size_t block) {
  return (block + control_block_alignment - 1) / control_block_alignment * control_block_alignment - block;
}

/// Bytes to allocate for `bytes` bytes that are aligned as a control block: at least a page, because a smaller block
/// may share its page with tensors, and would become private together with them.
std::size_t whole_pages(std::size_t bytes) { return std::max(bytes + control_block_alignment, page_bytes()); }

/// Memory for the queues of one member of a group of `size`; empty if the arena is full.
NodeMemory memory_of_queues(std::size_t size) {
  const std::size_t bytes = whole_pages(ControlQueueMemory::bytes(size));
  void* const block = Arena::of_this_process().allocate(bytes);
  return block == nullptr ? NodeMemory() : NodeMemory(block, bytes, free_in_arena);
}

/// A Departure, which a member stores when it leaves the group for good. Every member of every group has a cache line
/// of its own for this value. The line is never reused, so that the other members can read the value at any time.
struct alignas(line_bytes) Closed {
  std::atomic<std::uint32_t> value{0};
};

void close(Closed& closed, Departure how) noexcept {
  if (closed.value.load(std::memory_order_relaxed) != 0) return;
  closed.value.store(static_cast<std::uint32_t>(how), std::memory_order_release);
}

/// Makes a Closed in the arena of this process. The pages of these flags contain nothing else, so that no flag becomes
/// private together with a tensor. Returns null if the arena is full.
Closed* new_flag() {
  constexpr std::size_t flags = 1024;  // 64 KiB: at least one page on every system
  static Mutex mutex;
  static Closed* next LOCKSTEP_GUARDED_BY(mutex) = nullptr;
  static std::size_t left LOCKSTEP_GUARDED_BY(mutex) = 0;
  const MutexLock lock(mutex);
  if (left == 0) {
    next = static_cast<Closed*>(Arena::of_this_process().allocate(flags * sizeof(Closed)));
    if (next == nullptr) return nullptr;
    left = flags;
  }
  --left;
  return new (next++) Closed;
}

/// The mapping of another process's segment. All groups of this process share one mapping per segment.
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

/// The memory of a group that this process has left. It must be kept until all members have left the group.
struct Remains {
  std::vector<std::shared_ptr<SharedSegment>> segments;
  std::vector<Closed*> closed;
  NodeMemory control_block;
  NodeMemory queues;
  MemoryOfGroup other;
};

/// The groups that this process has left, but not yet all of their members.
struct LeftGroups {
  Mutex mutex;
  std::list<Remains> remains LOCKSTEP_GUARDED_BY(mutex);
};
LeftGroups& left_groups() {
  static NeverDestroyed<LeftGroups> groups;
  return *groups;
}

/// Takes the memory of a group that this process leaves. Then frees the memory of every group that all of its members
/// have left. It allocates nothing, since the end of a group must not fail.
void leave(std::list<Remains>& owned) noexcept {
  LeftGroups& groups = left_groups();
  const MutexLock lock(groups.mutex);
  groups.remains.splice(groups.remains.end(), owned);
  groups.remains.remove_if([](const Remains& left) {
    for (const Closed* const closed : left.closed) {
      if (closed->value.load(std::memory_order_acquire) == 0) return false;
    }
    return true;
  });
}

class ProcessGroup final : public NodeGroup {
 public:
  /// `owned` has one element.
  ProcessGroup(int rank, const std::vector<Member>& members, std::shared_ptr<const Levels> levels,
               std::list<Remains>&& owned)
      : NodeGroup(rank, members, std::move(levels)), owned_(std::move(owned)) {}

  ~ProcessGroup() override {
    owned_.front().other = take_memory();
    depart(Departure::orderly);
    leave(owned_);
  }

  void depart(Departure how) noexcept final { close(closed(rank()), how); }
  Departure departure_of(int member) const noexcept override {
    return static_cast<Departure>(closed(member).value.load(std::memory_order_acquire));
  }

  NodeAddress address_of(const void* data, std::size_t bytes) const noexcept override {
    if (!Arena::of_this_process().is_shared(data, bytes)) return NodeAddress::none;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - member(rank()).base);
    return static_cast<NodeAddress>(offset);  // never 0: a segment begins with its header
  }
  std::uint64_t unshares() const noexcept override { return Arena::of_this_process().unshares(); }
  bool can_unshare() const noexcept override { return true; }
  void unshare(std::span<const std::span<std::byte>> ranges) noexcept override {
    Arena::of_this_process().unshare(ranges);
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

 private:
  [[nodiscard]] Closed& closed(int member) const noexcept {
    return *owned_.front().closed[static_cast<std::size_t>(member)];
  }

  std::list<Remains> owned_;
};

}  // namespace

struct ProcessGroupOffer::Parts {
  NodeIntroduction introduction;
  std::list<Remains> owned{1};  // one element
  int rank = 0;
  std::vector<NodeGroup::Member> members;  // all members after a successful `open`; empty before
  std::shared_ptr<const Levels> levels;    // null before a successful `open`
};

ProcessGroupOffer::ProcessGroupOffer(bool share_memory, const NodePlace& place) : parts_(std::make_unique<Parts>()) {
  static_cast<void>(left_groups());
  Arena& arena = Arena::of_this_process();
  const auto& segment = arena.segment();
  if (!share_memory || !segment) {
    why_not_ = share_memory ? arena.status().text : "it is disabled";
    return;
  }
  const std::size_t bytes = whole_pages(sizeof(ControlBlock));
  void* const block = arena.allocate(bytes);
  const Closed* const closed = new_flag();
  if (block != nullptr) parts_->owned.front().control_block = NodeMemory(block, bytes, free_in_arena);
  if (block == nullptr || closed == nullptr) {
    why_not_ = "the arena is full: " + arena.status().text;
    return;
  }
  const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(block) - segment->data());
  parts_->introduction = {segment->name(), begin + control_block_offset(begin),
                          static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(closed) - segment->data()),
                          place};
  // default-initialized: descriptors need no initial values
  new (segment->data() + parts_->introduction.control_block) ControlBlock;
}

ProcessGroupOffer::~ProcessGroupOffer() {
  if (!parts_) return;
  Remains& owned = parts_->owned.front();
  if (!parts_->members.empty()) {
    close(*owned.closed[static_cast<std::size_t>(parts_->rank)], Departure::orderly);
    leave(parts_->owned);
  } else if (parts_->introduction.segment.nonce != 0) {
    owned.control_block.leak();  // other members may have mapped this memory
  }
}

const NodeIntroduction& ProcessGroupOffer::introduction() const noexcept { return parts_->introduction; }

/// Makes the queues to the other members. Returns false if the arena is full.
bool ProcessGroupOffer::open_queues(const NodeIntroduction& own, std::size_t members) {
  NodeMemory& memory = parts_->owned.front().queues;
  memory = memory_of_queues(members);
  Arena& arena = Arena::of_this_process();
  std::byte* const base = arena.segment()->data();
  if (memory.data() == nullptr) {
    why_not_ = "the arena is full: " + arena.status().text;
    return false;
  }
  const auto begin = static_cast<std::size_t>(memory.data() - base);
  const std::size_t queues = begin + control_block_offset(begin);
  ControlQueueMemory::begin(base + queues, members);
  reinterpret_cast<ControlBlock*>(base + own.control_block)->queues.value = queues;
  return true;
}

bool ProcessGroupOffer::open(int rank, std::span<const NodeIntroduction> members) {
  Remains& owned = parts_->owned.front();
  std::vector<NodeGroup::Member> found;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const NodeIntroduction& other = members[i];
    std::shared_ptr<SharedSegment> segment;
    if (other.segment.nonce != 0) {
      segment = static_cast<int>(i) == rank ? Arena::of_this_process().segment() : segment_of(other.segment, why_not_);
    }
    if (!segment) {
      if (why_not_.empty())
        why_not_ = "rank " + std::to_string(i) + " of the node has no arena, or LOCKSTEP_SHARED_MEMORY=0";
      return false;
    }
    found.push_back(
        {reinterpret_cast<ControlBlock*>(segment->data() + other.control_block), segment->data(), segment->size()});
    owned.closed.push_back(reinterpret_cast<Closed*>(segment->data() + other.closed));
    owned.segments.push_back(std::move(segment));
  }
  std::vector<NodePlace> places;
  for (const NodeIntroduction& each : members) places.push_back(each.place);
  if (!open_queues(members[static_cast<std::size_t>(rank)], members.size())) return false;
  parts_->rank = rank;
  parts_->levels = std::make_shared<const Levels>(places);
  parts_->members = std::move(found);
  return true;
}

std::unique_ptr<NodeGroup> ProcessGroupOffer::take() {
  offer_default_memory_resource(arena_memory_resource());
  auto group = std::make_unique<ProcessGroup>(parts_->rank, parts_->members, parts_->levels, std::move(parts_->owned));
  parts_.reset();  // it has nothing any more that other members access
  return group;
}

void ProcessGroupOffer::withdraw() noexcept { parts_.reset(); }

}  // namespace lockstep::detail
