// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The life of the operation, and the order of its steps.

#include "collectives/host/mixed_radix_exchange.hpp"

#include "collectives/host/mixed_radix_operation.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lockstep::detail {
namespace {

std::vector<std::int64_t> counts_of(const std::vector<HostItem>& items) {
  std::vector<std::int64_t> counts;
  counts.reserve(items.size());
  for (const HostItem& item : items) counts.push_back(item.count());
  return counts;
}

template <class TypeOf>
std::vector<std::size_t> sizes_of(const std::vector<HostItem>& items, TypeOf type_of) {
  std::vector<std::size_t> sizes;
  sizes.reserve(items.size());
  for (const HostItem& item : items) sizes.push_back(size_of(type_of(item)));
  return sizes;
}

/// While one chunk's messages are added, those of the next one fill the wire: so two chunks are in each stage at a
/// time.
constexpr int chunks_between_stages = 2;

/// Chunk `index` of a space of `size` elements.
ElementRange chunk_of(std::int64_t size, std::int64_t index, std::int64_t chunks) {
  const auto cut = [&](std::int64_t i) { return size / chunks * i + size % chunks * i / chunks; };
  return {cut(index), cut(index + 1)};
}

}  // namespace

MixedRadixExchange::MixedRadixExchange(const Descriptor& descriptor, std::shared_ptr<const RankSchedule> plan, int rank,
                                       std::vector<HostItem> items, NodeGroup* group)
    : Operation(descriptor),
      plan_(std::move(plan)),
      schedule_(plan_->schedule),
      rank_(rank),
      items_(std::move(items)),
      space_(counts_of(items_)),
      leaves_(space_, sizes_of(items_, [](const HostItem& item) { return item.dtype; })),
      partials_(
          space_,
          sizes_of(items_, [op = descriptor.op](const HostItem& item) { return accumulation_dtype(op, item.dtype); })),
      results_(space_,
               sizes_of(items_, [op = descriptor.op](const HostItem& item) { return result_dtype(op, item.dtype); })),
      first_replica_(schedule_.layout().first_replica[static_cast<std::size_t>(rank)]) {
  if (group != nullptr && group->size() > 1) make_node(*group);
}

void MixedRadixExchange::arrive(std::uint64_t tag, Arrival& arrival) {
  if (node_) node_->arrive(tag, arrival);
}

void MixedRadixExchange::start(Transport& transport, Workspace& workspace) {
  shares_node_ = node_ && node_->start();
  const auto& radices = schedule_.radices();
  const auto first_message = radices.begin() + (shares_node_ ? 1 : 0);
  const bool returns = first_message != radices.end() && first_message->kind != StageKind::replicate;
  const std::size_t bytes = results_.bytes({0, space_.size()});
  if (shares_node_) image_ = node_->results(bytes);
  if (returns && image_ == nullptr) {
    image_buffer_ = workspace.take(bytes);
    image_ = image_buffer_.data();
  }
  line_up_steps();
  post_ready_steps(transport, workspace);
}

bool MixedRadixExchange::advance(Transport& transport, Workspace& workspace) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (Step& step : under_way_) {
      std::erase_if(step.receives, [&](const Receive& receive) { return transport.test(receive.transfer); });
      if (!step.receives.empty() || !complete(step, workspace)) continue;
      step.is_complete = true;
      moved = true;
    }
    std::erase_if(under_way_, [](const Step& step) { return step.is_complete; });
    moved = post_ready_steps(transport, workspace) || moved;
  }
  std::erase_if(sends_, [&](const Send& send) {
    if (!transport.test(send.transfer)) return false;
    --chunks_[send.chunk].open_sends;
    return true;
  });
  for (Chunk& chunk : chunks_) {
    if (!chunk.buffers.empty() && chunk.left == 0 && chunk.open_sends == 0) give_back(chunk, workspace);
  }
  if (next_ < order_.size() || !under_way_.empty()) return false;
  if (!has_left_node() || !sends_.empty()) return false;
  workspace.give_back(std::move(image_buffer_));
  return true;
}

std::vector<int> MixedRadixExchange::awaited_ranks() const {
  std::vector<int> ranks;
  for (const Step& step : under_way_) {
    for (const Receive& receive : step.receives) ranks.push_back(receive.source);
  }
  if (shares_node_ && ranks.empty()) {
    for (const int member : node_->unfinished()) ranks.push_back(rank_ - node_->member() + member);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool MixedRadixExchange::abandon(Transport& transport) noexcept {
  const bool has_transfers = !sends_.empty() || !under_way_.empty();
  const bool is_watched = shares_node_ && node_->abandon(has_transfers);
  transport.quarantine(std::move(image_buffer_));
  for (Chunk& chunk : chunks_) {
    for (auto& buffer : chunk.buffers) transport.quarantine(std::move(buffer));
    chunk.buffers.clear();
  }
  return has_transfers || is_watched;
}

void MixedRadixExchange::line_up_steps() {
  const int stages = schedule_.stages();
  chunks_.resize(static_cast<std::size_t>(plan_->chunks));
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    chunk.elements = chunk_of(space_.size(), static_cast<std::int64_t>(c), plan_->chunks);
    for (int index = 0; index < 2 * stages; ++index) {
      const Way way = index < stages ? Way::forth : Way::back;
      const int stage = way == Way::forth ? index : 2 * stages - 1 - index;
      const bool replicates = schedule_.radices()[static_cast<std::size_t>(stage)].kind == StageKind::replicate;
      if (!stage_at(stage).has_peers || (way == Way::back && replicates)) continue;
      if (shares_node_ && stage == 0 && way == Way::back) continue;
      order_.push_back({c, stage, way, chunk.left++, static_cast<int>(c) + chunks_between_stages * index});
    }
  }
  std::sort(order_.begin(), order_.end(), [](const Planned& a, const Planned& b) {
    return std::tie(a.tick, a.chunk, a.turn) < std::tie(b.tick, b.chunk, b.turn);
  });
}

bool MixedRadixExchange::post_ready_steps(Transport& transport, Workspace& workspace) {
  bool posted = false;
  for (; next_ < order_.size() && chunks_[order_[next_].chunk].done == order_[next_].turn; ++next_) {
    const Planned& planned = order_[next_];
    if (shares_node_ && planned.stage == 0) {
      if (!fold_node(planned, workspace)) return posted;
    } else {
      post(planned, transport, workspace);
    }
    posted = true;
  }
  return posted;
}

bool MixedRadixExchange::fold_node(const Planned& planned, Workspace& workspace) {
  if (!node_->begin_work()) return false;
  Step step;
  step.chunk = planned.chunk;
  const StageStep what = schedule_.step(rank_, 0, chunks_[planned.chunk].elements);
  for (const SliceStep& lane : what.slices) step.lanes.push_back({space_.snapped(lane.kept), {}});
  complete_forth(step, workspace);
  node_->end_work();
  return true;
}

void MixedRadixExchange::post(const Planned& planned, Transport& transport, Workspace& workspace) {
  Step step;
  step.chunk = planned.chunk;
  step.stage = planned.stage;
  step.way = planned.way;
  const StageStep what = schedule_.step(rank_, planned.stage, chunks_[planned.chunk].elements);
  if (planned.way == Way::forth) {
    for (const SliceStep& lane : what.slices) receive_partials(step, what, lane, transport, workspace);
    for (const SliceStep& lane : what.slices) send_partials(step, lane, transport, workspace);
  } else {
    for (const SliceStep& lane : what.slices) receive_results(step, lane, transport);
    for (const SliceStep& lane : what.slices) send_results(step, lane, transport);
  }
  if (!step.receives.empty() || !complete(step, workspace)) under_way_.push_back(std::move(step));
}

bool MixedRadixExchange::complete(const Step& step, Workspace& workspace) {
  const bool is_seen = shares_node_ && (step.way == Way::back || step.stage + 1 == schedule_.stages());
  if (is_seen && !node_->begin_work()) return false;
  if (step.way == Way::forth) {
    complete_forth(step, workspace);
  } else {
    for (const ElementRange& elements : step.arriving) deliver(elements);
    count_done(step);
  }
  if (is_seen) node_->end_work();
  return true;
}

void MixedRadixExchange::complete_forth(const Step& step, Workspace& workspace) {
  std::vector<Held> held;
  for (const Lane& lane : step.lanes) held.push_back(fold(step, lane, workspace));
  chunks_[step.chunk].held = std::move(held);
  count_done(step);
}

void MixedRadixExchange::count_done(const Step& step) {
  ++chunks_[step.chunk].done;
  --chunks_[step.chunk].left;
}

std::shared_ptr<Operation> make_mixed_radix_exchange(const Descriptor& descriptor,
                                                     std::shared_ptr<const RankSchedule> schedule, int rank,
                                                     std::vector<HostItem> items, NodeGroup* group) {
  return std::make_shared<MixedRadixExchange>(descriptor, std::move(schedule), rank, std::move(items), group);
}

}  // namespace lockstep::detail
