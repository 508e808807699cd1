// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What each step moves and adds: forth partial results, back results.

#include "collectives/call/host_item.hpp"
#include "collectives/host/mixed_radix_operation.hpp"

#include <cstring>
#include <utility>

namespace lockstep::detail {

void MixedRadixExchange::make_node(NodeGroup& group) {
  const RankLayout& layout = schedule_.layout();
  std::vector<int> replicas;
  for (int member = 0; member < group.size(); ++member) {
    const auto at = static_cast<std::size_t>(rank_ - group.rank()) + static_cast<std::size_t>(member);
    replicas.push_back(layout.first_replica[at + 1] - layout.first_replica[at]);
  }
  node_.emplace(group, items_, descriptor().op, std::move(replicas));
}

bool MixedRadixExchange::has_left_node() {
  if (!shares_node_) return true;
  node_->finish();
  if (!node_->has_everybody_finished()) return false;
  if (node_->all_seen() || has_taken_) return true;
  if (!node_->begin_work()) return false;
  for (const Chunk& chunk : chunks_) {
    for (int member = 0; member < static_cast<int>(stage_bounds()); ++member) {
      if (member != node_->member()) take_results(member, chunk.elements);
    }
  }
  node_->end_work();
  has_taken_ = true;
  return true;
}

std::size_t MixedRadixExchange::stage_bounds() const { return stage_at(0).fold.inputs.size(); }

void MixedRadixExchange::take_results(int member, ElementRange elements) {
  const std::byte* const results = node_->results_of(member, results_.bytes({0, space_.size()}));
  const int rank = rank_ - node_->member() + member;
  const StageStep what = schedule_.step(rank, 0, elements);
  for (const LaneStep& lane : what.lanes) {
    for (const Piece& piece : space_.pieces(space_.snapped(lane.kept))) {
      const HostItem& item = items_[piece.item];
      for (std::size_t i = 0; i < item.outputs.size(); ++i) {
        if (!node_->is_seen(piece.item, i)) copy_result(piece, results, item.outputs[i]);
      }
    }
  }
}

void MixedRadixExchange::receive_partials(Step& step, const StageStep& what, const LaneStep& lane, Transport& transport,
                                          Workspace& workspace) {
  const ElementRange kept = space_.snapped(lane.kept);
  Lane& mine = step.lanes.emplace_back(Lane{kept, {}});
  mine.received.resize(what.bounds.size() - 1, nullptr);
  for (const auto& source : lane.receives) {
    const auto part = static_cast<std::size_t>(source.part);
    const std::size_t bytes = message_bytes(stage_at(step.stage).fold.inputs[part], kept);
    if (bytes == 0) continue;
    const std::span<std::byte> buffer = new_buffer(step.chunk, bytes, workspace);
    mine.received[part] = buffer.data();
    step.receives.push_back({transport.receive(source.peer, buffer), source.peer});
  }
}

void MixedRadixExchange::send_partials(const Step& step, const LaneStep& lane, Transport& transport,
                                       Workspace& workspace) {
  ElementRange packed{-1, -1};
  std::span<const std::byte> message;
  for (const auto& target : lane.sends) {
    const ElementRange elements = space_.snapped(target.elements);
    if (message_bytes(stage_at(step.stage).shipped, elements) == 0) continue;
    if (elements != packed) message = outgoing(step, elements, workspace);  // one for all, where all get the same
    packed = elements;
    send(step.chunk, target.peer, message, transport);
  }
}

std::span<const std::byte> MixedRadixExchange::outgoing(const Step& step, ElementRange elements, Workspace& workspace) {
  const auto& stage = stage_at(step.stage);
  const std::size_t bytes = message_bytes(stage.shipped, elements);
  if (step.stage == plan_->first) {
    const std::span<std::byte> buffer = new_buffer(step.chunk, bytes, workspace);
    pack_leaves(stage, elements, buffer.data());
    return buffer;
  }
  const Held& held = held_of(step.chunk, elements);
  if (stage.shipped.size() == 1) return {array_of(held, stage.shipped, 0, elements.begin), bytes};
  const std::span<std::byte> buffer = new_buffer(step.chunk, bytes, workspace);
  std::byte* next = buffer.data();
  for (std::size_t b = 0; b < stage.shipped.size(); ++b) {
    const std::size_t size = image_of(stage.shipped[b]).bytes(elements);
    std::memcpy(next, array_of(held, stage.shipped, b, elements.begin), size);
    next += size;
  }
  return buffer;
}

void MixedRadixExchange::pack_leaves(const RankSchedule::Stage& stage, ElementRange elements, std::byte* next) {
  for (std::size_t b = 0; b < stage.shipped.size(); ++b) {
    const Block& block = stage.shipped[b];
    const ElementImage& image = image_of(block);
    for (const Piece& piece : space_.pieces(elements)) {
      const HostItem& item = items_[piece.item];
      const std::int64_t count = piece.end - piece.begin;
      std::byte* const target = next + image.offset(position_of(piece)) - image.offset(elements.begin);
      const auto own = static_cast<std::size_t>(block.first - first_replica_);
      if (is_leaf(block)) {
        std::memcpy(target, at(item.inputs[own], piece.begin, item.dtype),
                    static_cast<std::size_t>(count) * size_of(item.dtype));
        continue;
      }
      inputs_.clear();
      for (std::size_t i = own; i < own + stage.shipped_merges[b].size(); ++i)
        inputs_.push_back({at(item.inputs[i], piece.begin, item.dtype), false});
      void* const output = target;
      add(item, stage.shipped_merges[b], std::span(&output, 1), FoldResult::partial, count);
    }
    next += image.bytes(elements);
  }
}

MixedRadixExchange::Held MixedRadixExchange::fold(const Step& step, const Lane& lane, Workspace& workspace) {
  const StageFold& stage = fold_of(step);
  const bool is_root = step.stage + 1 == schedule_.stages();
  Held result{lane.kept, {}};
  if (lane.kept.size() == 0) return result;
  if (!is_root) {
    for (const auto& output : stage.outputs) {
      const std::size_t bytes = image_of(output.block).bytes(lane.kept);
      result.arrays.push_back(new_buffer(step.chunk, bytes, workspace).data());
    }
  }
  for (const Piece& piece : space_.pieces(lane.kept)) {
    const HostItem& item = items_[piece.item];
    const std::int64_t count = piece.end - piece.begin;
    collect_inputs(step, lane, piece);
    if (is_root) {
      finish(stage.outputs.front().merges, piece);
      continue;
    }
    std::vector<FoldInput> all = std::exchange(inputs_, {});
    auto next = all.begin();
    for (std::size_t o = 0; o < stage.outputs.size(); ++o) {
      const auto& output = stage.outputs[o];
      const ElementImage& image = image_of(output.block);
      void* const target = result.arrays[o] + image.offset(position_of(piece)) - image.offset(lane.kept.begin);
      if (output.inputs == 1) {
        const DType dtype = is_leaf(output.block) ? item.dtype : accumulation_dtype(descriptor().op, item.dtype);
        std::memcpy(target, next->data, static_cast<std::size_t>(count) * size_of(dtype));
      } else {
        inputs_.assign(next, next + static_cast<std::ptrdiff_t>(output.inputs));
        add(item, output.merges, std::span(&target, 1), FoldResult::partial, count);
      }
      next += static_cast<std::ptrdiff_t>(output.inputs);
    }
  }
  return result;
}

void MixedRadixExchange::collect_inputs(const Step& step, const Lane& lane, const Piece& piece) {
  const StageFold& stage = fold_of(step);
  const HostItem& item = items_[piece.item];
  const std::int64_t position = position_of(piece);
  inputs_.clear();
  for (std::size_t part = 0; part < stage.inputs.size(); ++part) {
    const auto& blocks = stage.inputs[part];
    if (is_in_node(step)) {
      for (std::size_t k = 0; k < blocks.size(); ++k) {
        const std::byte* const input = node_->input(static_cast<int>(part), piece.item, k);
        inputs_.push_back({at(input, piece.begin, item.dtype), false});
      }
      continue;
    }
    const std::byte* message = lane.received[part];
    if (message == nullptr && step.stage == plan_->first) {
      for (const void* const input : item.inputs) inputs_.push_back({at(input, piece.begin, item.dtype), false});
      continue;
    }
    const Held* const held = message == nullptr ? &held_of(step.chunk, lane.kept) : nullptr;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const ElementImage& image = image_of(blocks[b]);
      if (held != nullptr) {
        inputs_.push_back({array_of(*held, blocks, b, position), !is_leaf(blocks[b])});
      } else {
        inputs_.push_back({message + image.offset(position) - image.offset(lane.kept.begin), !is_leaf(blocks[b])});
        message += image.bytes(lane.kept);
      }
    }
  }
}

void MixedRadixExchange::finish(std::span<const std::uint8_t> merges, const Piece& piece) {
  const HostItem& item = items_[piece.item];
  const DType dtype = result_dtype(descriptor().op, item.dtype);
  std::vector<void*> outputs;
  if (image_ != nullptr) outputs.push_back(image_ + results_.offset(position_of(piece)));
  for (void* const output : item.outputs) outputs.push_back(at(output, piece.begin, dtype));
  if (shares_node_) {
    for (std::byte* const output : node_->outputs(piece.item)) outputs.push_back(at(output, piece.begin, dtype));
  }
  if (!outputs.empty()) add(item, merges, outputs, FoldResult::finished, piece.end - piece.begin);
}

void MixedRadixExchange::add(const HostItem& item, std::span<const std::uint8_t> merges, std::span<void* const> outputs,
                             FoldResult result, std::int64_t count) {
  reduce({.op = descriptor().op,
          .dtype = item.dtype,
          .inputs = inputs_,
          .merges = merges,
          .outputs = outputs,
          .result = result,
          .replicas = schedule_.layout().replicas()},
         count);
}

void MixedRadixExchange::receive_results(Step& step, const LaneStep& lane, Transport& transport) {
  for (const auto& source : lane.sends) {
    const ElementRange elements = space_.snapped(source.elements);
    if (elements.size() == 0) continue;
    step.receives.push_back({transport.receive(source.peer, result_of(elements)), source.peer});
    step.arriving.push_back(elements);
  }
}

void MixedRadixExchange::send_results(const Step& step, const LaneStep& lane, Transport& transport) {
  const ElementRange kept = space_.snapped(lane.kept);
  if (kept.size() == 0) return;
  for (const auto& target : lane.receives) send(step.chunk, target.peer, result_of(kept), transport);
}

void MixedRadixExchange::deliver(ElementRange elements) {
  for (const Piece& piece : space_.pieces(elements)) {
    const HostItem& item = items_[piece.item];
    for (void* const output : item.outputs) copy_result(piece, image_, output);
    if (!shares_node_) continue;
    for (std::byte* const output : node_->outputs(piece.item)) copy_result(piece, image_, output);
  }
}

void MixedRadixExchange::copy_result(const Piece& piece, const std::byte* image, void* output) const {
  const DType dtype = result_dtype(descriptor().op, items_[piece.item].dtype);
  std::memcpy(at(output, piece.begin, dtype), image + results_.offset(position_of(piece)),
              static_cast<std::size_t>(piece.end - piece.begin) * size_of(dtype));
}

}  // namespace lockstep::detail
