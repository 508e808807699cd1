// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/exchange_plan.hpp"

#include <algorithm>

namespace lockstep::detail {
namespace {

/// Largest size, in bytes, of a small result. Every rank that needs a small result computes all of it, so there is no
/// second step.
constexpr std::int64_t one_step_bytes = 2048;

Assembly assembly_of(const Traits& kind) {
  if (kind.gathers()) return Assembly::concatenate;
  return kind.pattern == Pattern::broadcast ? Assembly::scatter : Assembly::fold;
}

}  // namespace

ExchangePlan::ExchangePlan(const Descriptor& descriptor, const ReplicaLayout& layout, int rank,
                           std::span<const HostItem> items)
    : descriptor_(descriptor),
      layout_(layout),
      rank_(rank),
      items_(items),
      assembly_(assembly_of(descriptor.traits())) {
  cut(items);
  if (assembly_ == Assembly::fold) plan_folds();
}

void ExchangePlan::cut(std::span<const HostItem> items) {
  const int ranks = layout_.ranks();
  std::vector<std::int64_t> counts;
  std::int64_t bytes = 0;
  for (const HostItem& item : items) {
    counts.push_back(item.count());
    bytes += item.count() * static_cast<std::int64_t>(size_of(item.dtype));
  }
  slices_.resize(static_cast<std::size_t>(ranks));
  if (assembly_ == Assembly::concatenate || descriptor_.traits().has_own_outputs()) {
    // every rank owns the parts of its own replicas
    const auto part_begin = [&](std::size_t i, int replica) {
      return assembly_ == Assembly::concatenate ? items[i].part_begin(replica)
                                                : counts[i] / layout_.replicas() * replica;
    };
    for (int owner = 0; owner < ranks; ++owner) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const std::int64_t begin = part_begin(i, layout_.first(owner));
        const std::int64_t end = part_begin(i, layout_.first(owner + 1));
        if (begin != end)
          slices_[static_cast<std::size_t>(owner)].push_back({static_cast<std::uint32_t>(i), begin, end});
      }
    }
    return;
  }
  one_step_ = bytes <= one_step_bytes;
  if (!one_step_) {
    slices_ = even_slices(counts, ranks);
    return;
  }
  for (int owner = 0; owner < ranks; ++owner) {
    if (wants_result(owner)) slices_[static_cast<std::size_t>(owner)] = whole_slice(counts);
  }
}

void ExchangePlan::plan_folds() {
  std::vector<Block> inputs;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    blocks_.push_back(aligned_blocks(layout_.first(rank), layout_.first(rank + 1), layout_.replicas()));
    if (rank != rank_) {
      inputs.insert(inputs.end(), blocks_.back().begin(), blocks_.back().end());
      continue;
    }
    for (int replica = layout_.first(rank); replica < layout_.first(rank + 1); ++replica)
      inputs.push_back({replica, replica + 1});
  }
  owner_merges_ = fold_merges(inputs, {0, layout_.replicas()});
  for (const Block& block : blocks(rank_)) block_merges_.push_back(fold_merges_of_leaves(block));
}

bool ExchangePlan::wants_result(int rank) const {
  const Place outputs = descriptor_.traits().outputs;
  return outputs == Place::root ? rank == descriptor_.root : outputs != Place::none;
}

bool ExchangePlan::contributes(int rank, int owner) const {
  if (rank == owner || slice(owner).empty()) return false;
  switch (assembly_) {
    case Assembly::fold: return true;
    case Assembly::scatter: return rank == descriptor_.root;
    case Assembly::concatenate: return false;
  }
  return false;
}

bool ExchangePlan::distributes(int owner, int rank) const {
  if (rank == owner || one_step_ || slice(owner).empty() || !wants_result(rank)) return false;
  if (descriptor_.traits().has_own_outputs()) return false;
  return assembly_ != Assembly::scatter || rank != descriptor_.root;  // the root of a broadcast already has the result
}

DType ExchangePlan::travel_dtype(const Block& block, const HostItem& item) const {
  return block.last - block.first == 1 ? item.dtype : accumulation_dtype(descriptor_.op, item.dtype);
}

DType ExchangePlan::result_dtype_of(const HostItem& item) const {
  return assembly_ == Assembly::fold ? result_dtype(descriptor_.op, item.dtype) : item.dtype;
}

std::size_t ExchangePlan::contribution_bytes(int rank, int owner) const {
  if (!contributes(rank, owner)) return 0;
  if (assembly_ == Assembly::scatter) return result_bytes(owner);
  std::size_t bytes = 0;
  for (const TensorRange& range : slice(owner)) {
    for (const Block& block : blocks(rank))
      bytes += padded_bytes(range.end - range.begin, travel_dtype(block, items_[range.item]));
  }
  return bytes;
}

std::size_t ExchangePlan::result_bytes(int owner) const {
  std::size_t bytes = 0;
  for (const TensorRange& range : slice(owner))
    bytes += padded_bytes(range.end - range.begin, result_dtype_of(items_[range.item]));
  return bytes;
}

}  // namespace lockstep::detail
