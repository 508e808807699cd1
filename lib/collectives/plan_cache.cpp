// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/plan_cache.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

/// Encodes the list of items as words; different lists have different encodings. Calls `visit` with each word, until
/// `visit` returns false. Returns false if `visit` has returned false.
template <class Visit>
bool for_each_word(std::span<const Item> items, const Visit& visit) {
  const auto visit_view = [&](const ConstTensorView& view) {
    if (!visit(reinterpret_cast<std::uintptr_t>(view.data))) return false;
    const auto kind = static_cast<std::uint64_t>(view.dtype) | static_cast<std::uint64_t>(view.shape.rank()) << 8 |
                      static_cast<std::uint64_t>(view.device.kind) << 16 |
                      static_cast<std::uint64_t>(static_cast<std::uint32_t>(view.device.index)) << 32;
    if (!visit(kind)) return false;
    for (const std::int64_t extent : view.shape.extents()) {
      if (!visit(static_cast<std::uint64_t>(extent))) return false;
    }
    return true;
  };
  for (const Item& item : items) {
    if (!visit(item.inputs.size() << 32 | item.outputs.size())) return false;
    for (const ConstTensorView& view : item.inputs) {
      if (!visit_view(view)) return false;
    }
    for (const TensorView& view : item.outputs) {
      if (!visit_view(view)) return false;
    }
  }
  return true;
}

std::uint64_t hash_of(const CallKey& key) {
  std::uint64_t hash = static_cast<std::uint64_t>(key.kind) | static_cast<std::uint64_t>(key.op) << 8 |
                       static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.root)) << 16 |
                       static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.order)) << 48;
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    return true;
  };
  add(key.place);
  for_each_word(key.items, add);
  for (const char each : key.name) add(static_cast<unsigned char>(each));
  return hash;
}

}  // namespace

bool PlanCache::matches(const Entry& entry, const CallKey& key) {
  if (entry.place != key.place || entry.kind != key.kind || entry.op != key.op || entry.root != key.root ||
      entry.order != key.order || entry.name != key.name || entry.only_name != key.only_name) {
    return false;
  }
  std::size_t next = 0;
  const bool all = for_each_word(key.items, [&](std::uint64_t word) {
    const bool same = next < entry.words.size() && entry.words[next] == word;
    ++next;
    return same;
  });
  return all && next == entry.words.size();
}

std::list<PlanCache::Entry>::iterator PlanCache::locate(const CallKey& key, std::uint64_t hash) {
  const auto found = by_hash_.find(hash);
  return found != by_hash_.end() && matches(*found->second, key) ? found->second : entries_.end();
}

std::shared_ptr<Operation> PlanCache::find(const CallKey& key) {
  const auto before = entries_.begin();
  if (before == entries_.end()) return nullptr;
  const bool has_next = before->next_since == removals_;
  const auto entry = has_next && matches(*before->next, key) ? before->next : locate(key, hash_of(key));
  if (entry == entries_.end()) return nullptr;
  before->next = entry;
  before->next_since = removals_;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->operation;
}

void PlanCache::add(const CallKey& key, std::shared_ptr<Operation> operation) {
  const std::uint64_t hash = hash_of(key);
  if (const auto same_hash = by_hash_.find(hash); same_hash != by_hash_.end()) {
    entries_.erase(same_hash->second);
    by_hash_.erase(same_hash);
    ++removals_;
  }
  Entry entry{hash,
              key.kind,
              key.op,
              key.root,
              key.order,
              std::string(key.name),
              key.only_name,
              key.place,
              {},
              std::move(operation),
              {},
              none};
  for_each_word(key.items, [&](std::uint64_t word) {
    entry.words.push_back(word);
    return true;
  });
  entries_.push_front(std::move(entry));
  by_hash_[hash] = entries_.begin();
  if (entries_.size() <= most_entries) return;
  by_hash_.erase(entries_.back().hash);
  entries_.pop_back();
  ++removals_;
}

}  // namespace lockstep::detail
