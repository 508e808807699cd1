// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/node_memory.hpp"

#include "base/processor.hpp"
#include "races/races.hpp"
#include "simulation/allocations.hpp"
#include "transport/shm/control_queues.hpp"
#include "virtual_time/virtual_time.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace lockstep::simulation {
namespace {

using detail::NodeAddress;

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t block_alignment = 128;

/// Those that exist. Exactly one thread runs at a time.
std::vector<NodeMemories*>& all_memories() {
  static std::vector<NodeMemories*> all;
  return all;
}

/// As in an arena, a block of at least a page has whole pages.
std::size_t alignment_of(std::size_t bytes) { return bytes < page_bytes ? block_alignment : page_bytes; }
std::size_t block_bytes(std::size_t bytes) {
  return detail::round_up(std::max<std::size_t>(bytes, 1), alignment_of(bytes));
}

void require(bool is_right) {
  if (!is_right) std::abort();
}

void free_block(void* data, std::size_t bytes) {
  if (NodeMemories* const memories = NodeMemories::of(data)) memories->free(static_cast<std::byte*>(data), bytes);
}

class MappedGroup final : public detail::NodeGroup {
 public:
  MappedGroup(int rank, const std::vector<Member>& members, std::shared_ptr<const detail::Levels> levels,
              std::shared_ptr<NodeMemories> memories)
      : NodeGroup(rank, members, std::move(levels)), memories_(std::move(memories)) {}
  ~MappedGroup() override {
    // other ranks may still access it: it lasts as long as the memories
    take_memory().leak();
    depart(detail::Departure::orderly);
  }

  void depart(detail::Departure how) noexcept final {
    std::atomic<detail::Departure>& own = memories_->departures[static_cast<std::size_t>(rank())];
    if (own.load(std::memory_order_relaxed) == detail::Departure::none) own.store(how, std::memory_order_release);
  }
  detail::Departure departure_of(int member) const noexcept override {
    return memories_->departures[static_cast<std::size_t>(member)].load(std::memory_order_acquire);
  }

  NodeAddress address_of(const void* data, std::size_t bytes) const noexcept override {
    return memories_->address_of(rank(), data, bytes);
  }
  std::uint64_t unshares() const noexcept override { return memories_->unshares(rank()); }
  bool can_unshare() const noexcept override { return true; }
  void unshare(std::span<const std::span<std::byte>> ranges) noexcept override { memories_->unshare(rank(), ranges); }
  std::byte* resolve(int member, NodeAddress address, std::size_t bytes) const override {
    return memories_->resolve(rank(), member, address, bytes);
  }
  detail::NodeMemory allocate(std::size_t bytes) const override {
    std::byte* const data = memories_->allocate(rank(), bytes);
    return data == nullptr ? detail::NodeMemory() : detail::NodeMemory(data, bytes, free_block);
  }

 private:
  std::shared_ptr<NodeMemories> memories_;
};

}  // namespace

NodeMemories::NodeMemories(int ranks)
    : departures(static_cast<std::size_t>(ranks)), ranks_(static_cast<std::size_t>(ranks)) {
  file_ = memfd_create("simulated-node", MFD_CLOEXEC);
  require(file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes_of_view())) == 0);
  void* const all =
      mmap(nullptr, ranks_.size() * bytes_of_view(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(all != MAP_FAILED);
  views_ = static_cast<std::byte*>(all);
  for (std::size_t viewer = 0; viewer < ranks_.size(); ++viewer) {
    require(mmap(views_ + viewer * bytes_of_view(), bytes_of_view(), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_, 0) != MAP_FAILED);
  }
  races::has_views(views_, bytes_of_view(), ranks_.size());
  virtual_time::has_views(views_, bytes_of_view(), ranks_.size());
  for (int rank = 0; rank < ranks; ++rank) {
    auto* const block = new (view(rank, rank)) detail::ControlBlock;  // at offset 0, which is the address of no buffer
    detail::ControlQueueMemory::begin(view(rank, rank) + sizeof(*block), ranks_.size());
    block->queues.value = sizeof(*block);
    const std::size_t begin =
        detail::round_up(sizeof(*block) + detail::ControlQueueMemory::bytes(ranks_.size()), page_bytes);
    ranks_[static_cast<std::size_t>(rank)].free = {{begin, bytes_of_rank - begin}};
  }
  all_memories().push_back(this);
}

NodeMemories::~NodeMemories() {
  std::erase(all_memories(), this);
  virtual_time::forget_views(views_);
  munmap(views_, ranks_.size() * bytes_of_view());
  close(file_);
}

NodeMemories* NodeMemories::of(const void* data) noexcept {
  for (NodeMemories* const each : all_memories()) {
    if (data >= each->views_ && data < each->views_ + each->ranks_.size() * each->bytes_of_view()) return each;
  }
  return nullptr;
}

std::vector<std::unique_ptr<detail::NodeGroup>> NodeMemories::groups(const std::shared_ptr<NodeMemories>& memories,
                                                                     std::span<const detail::NodePlace> places) {
  const int size = static_cast<int>(memories->ranks_.size());
  const auto levels = std::make_shared<const detail::Levels>(size, places);
  std::vector<std::unique_ptr<detail::NodeGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<detail::NodeGroup::Member> members;
    for (int other = 0; other < size; ++other) {
      std::byte* const begin = memories->view(rank, other);
      members.push_back({reinterpret_cast<detail::ControlBlock*>(begin), begin, bytes_of_rank});
    }
    groups.push_back(std::make_unique<MappedGroup>(rank, members, levels, memories));
  }
  return groups;
}

std::byte* NodeMemories::allocate(int rank, std::size_t bytes) {
  const CodeOf code(CodeOf::simulation);
  bytes = block_bytes(bytes);
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(own.mutex);
  auto& free = own.free;
  const auto start_in = [&](std::size_t begin) { return detail::round_up(begin, alignment_of(bytes)); };
  const auto first = std::find_if(free.begin(), free.end(), [&](const auto& each) {
    return start_in(each.first) + bytes <= each.first + each.second;
  });
  if (first == free.end()) return nullptr;
  const auto [begin, size] = *first;
  const std::size_t offset = start_in(begin);
  free.erase(first);
  if (offset > begin) free.emplace(begin, offset - begin);
  if (begin + size > offset + bytes) free.emplace(offset + bytes, begin + size - offset - bytes);
  std::byte* const data = view(rank, rank) + offset;
  races::is_new(data, bytes);
  return data;
}

/// Blocks next to each other are not joined: memory is plenty. A block that has left shared memory is not used again.
void NodeMemories::free(std::byte* data, std::size_t bytes) noexcept {
  const CodeOf code(CodeOf::simulation);
  bytes = block_bytes(bytes);
  races::wrote(data, bytes);
  const auto place = static_cast<std::size_t>(data - views_);
  const auto rank = static_cast<int>(place / bytes_of_view());
  const std::size_t offset = static_cast<std::size_t>(data - view(rank, rank));
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(own.mutex);
  if (!has_private_page(rank, offset, bytes)) own.free.emplace(offset, bytes);
}

bool NodeMemories::has_private_page(int rank, std::size_t offset, std::size_t bytes) const noexcept {
  const auto& pages = ranks_[static_cast<std::size_t>(rank)].private_pages;
  const auto first = pages.lower_bound(offset / page_bytes);
  return first != pages.end() && *first <= (offset + std::max<std::size_t>(bytes, 1) - 1) / page_bytes;
}

bool NodeMemories::contains(int rank, const void* data, std::size_t bytes) const noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  return first >= view(rank, rank) && first + bytes <= view(rank, rank) + bytes_of_rank;
}

NodeAddress NodeMemories::address_of(int rank, const void* data, std::size_t bytes) const noexcept {
  if (!contains(rank, data, bytes)) return NodeAddress::none;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - view(rank, rank));
  const std::lock_guard lock(ranks_[static_cast<std::size_t>(rank)].mutex);
  return has_private_page(rank, offset, bytes) ? NodeAddress::none : static_cast<NodeAddress>(offset);
}

std::byte* NodeMemories::resolve(int viewer, int rank, NodeAddress address, std::size_t bytes) const {
  const auto offset = static_cast<std::size_t>(address);
  require(offset != 0 && offset + bytes <= bytes_of_rank);
  return view(viewer, rank) + offset;
}

void NodeMemories::unshare(int rank, std::span<const std::span<std::byte>> ranges) {
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(own.mutex);
  ++own.unshares;
  for (const auto& range : ranges) {
    if (range.empty() || !contains(rank, range.data(), range.size())) continue;
    const auto begin = static_cast<std::size_t>(range.data() - view(rank, rank));
    for (std::size_t page = begin / page_bytes; page * page_bytes < begin + range.size(); ++page) {
      if (!own.private_pages.insert(page).second) continue;
      std::byte* const data = view(rank, rank) + page * page_bytes;
      std::array<std::byte, page_bytes> contents;
      std::memcpy(contents.data(), data, page_bytes);
      const off_t place = static_cast<off_t>(static_cast<std::size_t>(rank) * bytes_of_rank + page * page_bytes);
      require(mmap(data, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_, place) != MAP_FAILED);
      std::memcpy(data, contents.data(), page_bytes);  // which makes the copy
      races::separates(data, page_bytes);
    }
  }
}

}  // namespace lockstep::simulation
