// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/control_queues.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

namespace lockstep::detail {

void ControlQueueMemory::begin(std::byte* memory, std::size_t members) noexcept {
  for (std::size_t member = 0; member < members; ++member)
    new (memory + member * sizeof(ControlQueueEnds)) ControlQueueEnds;
}

ControlQueues::ControlQueues(NodeGroup& group, std::vector<int> ranks)
    : group_(group), ranks_(std::move(ranks)), outgoing_(ranks_.size()), incoming_(ranks_.size()) {
  const auto memory_of = [&](int member) {
    const auto address = static_cast<NodeAddress>(group.control_block(member).queues.value.load());
    return group.resolve(member, address, ControlQueueMemory::bytes(outgoing_.size()));
  };
  const auto queues_of = [&](int member) { return reinterpret_cast<ControlQueueEnds*>(memory_of(member)); };
  ControlQueueEnds* const own = queues_of(group.rank());
  add_spares(memory_of(group.rank()) + ControlQueueMemory::offset_of_blocks(outgoing_.size()),
             ControlQueueMemory::blocks);
  for (int member = 0; member < group.size(); ++member) {
    const auto at = static_cast<std::size_t>(member);
    if (member == group.rank()) continue;
    outgoing_[at].ends = own + member;
    incoming_[at].ends = queues_of(member) + group.rank();
    incoming_[at].next = &incoming_[at].ends->first;
  }
}

/// -1 if `rank` is not a member.
int ControlQueues::member_of(int rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  return found == ranks_.end() || *found != rank ? -1 : static_cast<int>(found - ranks_.begin());
}

void ControlQueues::post(int rank, std::span<const std::byte> message) {
  Outgoing& out = outgoing_[static_cast<std::size_t>(member_of(rank))];
  if (flush(out) && put(out, message)) return;
  out.waiting.emplace_back(message.begin(), message.end());
  is_any_waiting_ = true;
}

bool ControlQueues::have_left() {
  if (!is_any_waiting_) return true;
  bool have_all_left = true;
  for (Outgoing& out : outgoing_) have_all_left = flush(out) && have_all_left;
  is_any_waiting_ = !have_all_left;
  return have_all_left;
}

/// Sends the messages that wait. Returns false if one still waits.
bool ControlQueues::flush(Outgoing& out) {
  while (!out.waiting.empty()) {
    if (!put(out, out.waiting.front())) return false;
    out.waiting.pop_front();
  }
  return true;
}

/// Sends a message. Returns false, and sends nothing, if the arena is full.
bool ControlQueues::put(Outgoing& out, std::span<const std::byte> message) {
  const std::size_t blocks = std::max<std::size_t>(1, (message.size() + Block::capacity - 1) / Block::capacity);
  if (!have_spares(blocks)) return false;
  Block* first = nullptr;
  Block* last = nullptr;
  for (std::size_t k = 0; k < blocks; ++k) {
    const std::size_t begin = k * Block::capacity;
    const std::size_t bytes = std::min(Block::capacity, message.size() - begin);
    Block* const block = new_block(message.subspan(begin, bytes), k + 1 < blocks);
    if (first == nullptr) {
      first = block;
    } else {
      last->following = block;
      last->next.store(static_cast<std::uint64_t>(group_.address_of(block, sizeof(Block))), std::memory_order_relaxed);
    }
    last = block;
  }
  std::atomic<std::uint64_t>& link = out.last == nullptr ? out.ends->first : out.last->next;
  (out.last == nullptr ? out.oldest : out.last->following) = first;
  out.last = last;
  group_.at_flag();
  link.store(static_cast<std::uint64_t>(group_.address_of(first, sizeof(Block))), std::memory_order_release);
  // after the departure of this rank, the memory of the others may be in other use
  if (group_.departure_of(group_.rank()) == Departure::none) group_.wake();
  return true;
}

/// Takes back the blocks that the receiver does not read any more. It has read the parts of `taken` blocks, and still
/// looks at the last of these for the address of the next one.
void ControlQueues::remove_taken(Outgoing& out) noexcept {
  if (out.ends == nullptr) return;
  group_.at_flag();
  const std::uint64_t taken = out.ends->taken.load(std::memory_order_acquire);
  for (; out.removed + 1 < taken; ++out.removed) {
    Block* const block = std::exchange(out.oldest, out.oldest->following);
    block->following = std::exchange(spare_, block);
    ++spares_;
  }
}

/// Makes the number of spare blocks at least `count`: takes back blocks, then allocates. Returns false if the arena is
/// full.
bool ControlQueues::have_spares(std::size_t count) {
  if (spares_ < count) {
    for (Outgoing& out : outgoing_) remove_taken(out);
  }
  constexpr std::size_t blocks_at_once = 7;  // with the alignment that NodeGroup::keep adds, a page of the usual size
  while (spares_ < count) {
    std::byte* const memory = group_.keep(blocks_at_once * sizeof(Block));
    if (memory == nullptr) return false;
    add_spares(memory, blocks_at_once);
  }
  return true;
}

void ControlQueues::add_spares(std::byte* memory, std::size_t count) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    Block* const block = new (memory + k * sizeof(Block)) Block;
    block->following = std::exchange(spare_, block);
    ++spares_;
  }
}

ControlQueues::Block* ControlQueues::new_block(std::span<const std::byte> part, bool is_continued) noexcept {
  Block* const block = std::exchange(spare_, spare_->following);
  --spares_;
  block->next.store(0, std::memory_order_relaxed);
  block->following = nullptr;
  block->bytes = static_cast<std::uint32_t>(part.size());
  block->is_continued = is_continued ? 1 : 0;
  std::copy(part.begin(), part.end(), block->data.begin());
  return block;
}

std::optional<ControlQueues::Message> ControlQueues::poll() {
  // the memory of the other members may be in other use when all members have left
  if (group_.departure_of(group_.rank()) != Departure::none) return std::nullopt;
  static_cast<void>(have_left());
  for (std::size_t count = 0; count < incoming_.size(); ++count) {
    const std::size_t member = next_;
    if (incoming_[member].ends != nullptr && take(static_cast<int>(member), incoming_[member]))
      return Message{ranks_[member], received_};
    next_ = (next_ + 1) % incoming_.size();
  }
  return std::nullopt;
}

/// Takes the next message of `member`, if all of it has come.
bool ControlQueues::take(int member, Incoming& in) {
  while (const std::uint64_t address = in.next->load(std::memory_order_acquire)) {
    const auto* const block =
        reinterpret_cast<const Block*>(group_.resolve(member, static_cast<NodeAddress>(address), sizeof(Block)));
    const std::span<const std::byte> part = std::span(block->data).first(block->bytes);
    in.message.insert(in.message.end(), part.begin(), part.end());
    const bool is_continued = block->is_continued != 0;
    in.next = &block->next;
    group_.at_flag();
    in.ends->taken.store(++in.taken, std::memory_order_release);
    if (is_continued) continue;
    std::swap(received_, in.message);
    in.message.clear();
    return true;
  }
  return false;
}

}  // namespace lockstep::detail
