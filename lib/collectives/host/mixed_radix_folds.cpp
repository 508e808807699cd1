// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/mixed_radix_folds.hpp"

#include "base/check.hpp"
#include "collectives/call/host_item.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

bool is_leaf(const Block& block) noexcept { return block.last - block.first == 1; }

std::vector<std::int64_t> counts_of(std::span<const HostItem> items) {
  std::vector<std::int64_t> counts;
  counts.reserve(items.size());
  for (const HostItem& item : items) counts.push_back(item.count());
  return counts;
}

template <class TypeOf>
std::vector<std::size_t> sizes_of(std::span<const HostItem> items, TypeOf type_of) {
  std::vector<std::size_t> sizes;
  sizes.reserve(items.size());
  for (const HostItem& item : items) sizes.push_back(size_of(type_of(item)));
  return sizes;
}

}  // namespace

ReductionSpace::ReductionSpace(ReduceOp reduce_op, std::vector<HostItem> tensors)
    : op(reduce_op),
      items(std::move(tensors)),
      space(counts_of(items)),
      leaves(space, sizes_of(items, [](const HostItem& item) { return item.dtype; })),
      partials(space, sizes_of(items, [this](const HostItem& item) { return accumulation_dtype(op, item.dtype); })),
      results(space, sizes_of(items, [this](const HostItem& item) { return result_dtype(op, item.dtype); })) {}

std::size_t ReductionSpace::message_bytes(std::span<const Block> blocks, ElementRange elements) const {
  std::size_t bytes = 0;
  for (const Block& block : blocks) bytes += layout_of(block).bytes(elements);
  return bytes;
}

std::vector<TensorRange> ReductionSpace::turns(ElementRange elements, std::size_t buffers) const {
  std::vector<TensorRange> turns;
  for (const TensorRange& range : space.pieces(elements)) {
    const std::size_t element_bytes = size_of(items[range.item].dtype) * std::max<std::size_t>(buffers, 1);
    const auto most = static_cast<std::int64_t>(NodeWork::turn_bytes / element_bytes / 64 * 64 + 64);
    for (std::int64_t begin = range.begin; begin < range.end; begin += most)
      turns.push_back({range.item, begin, std::min(begin + most, range.end)});
  }
  return turns;
}

const Partials& Segment::partials_of(ElementRange elements) const {
  for (const Partials& partials : partials_) {
    if (partials.elements.begin <= elements.begin && elements.end <= partials.elements.end) return partials;
  }
  LOCKSTEP_CHECK(false && "a stage needs elements that the stage before did not keep");
  return partials_.front();
}

std::span<std::byte> Segment::new_buffer(std::size_t bytes, Workspace& workspace) {
  buffers_.push_back(workspace.take(bytes));
  return buffers_.back().first(bytes);
}

void Segment::release(Workspace& workspace) {
  for (auto& buffer : buffers_) workspace.give_back(std::move(buffer));
  buffers_.clear();
  partials_.clear();
}

std::vector<void*> ResultWriter::places_of(const TensorRange& range) const {
  const HostItem& item = reduction_.items[range.item];
  const DType dtype = result_dtype(reduction_.op, item.dtype);
  std::vector<void*> places;
  if (packed_ != nullptr) places.push_back(packed_ + reduction_.results.offset(reduction_.position_of(range)));
  for (void* const output : item.outputs) places.push_back(at(output, range.begin, dtype));
  if (node_ != nullptr) {
    for (std::byte* const output : node_->outputs(range.item)) places.push_back(at(output, range.begin, dtype));
  }
  return places;
}

void ResultWriter::write(ElementRange elements, std::span<const void* const> sources) const {
  for (const TensorRange& range : reduction_.turns(elements, 2)) {
    const void* const source = sources[range.item];
    if (source == nullptr) continue;
    const DType dtype = reduction_.items[range.item].dtype;
    for (void* const place : places_of(range)) {
      if (node_ != nullptr && !node_->goes_on(2 * reduction_.bytes_of(range))) return;
      std::memcpy(place, at(source, range.begin, dtype), reduction_.bytes_of(range));
    }
  }
}

void ResultWriter::deliver(ElementRange elements) const {
  for (const TensorRange& range : reduction_.turns(elements, 2)) {
    const auto goes_on = [&] { return node_ == nullptr || node_->goes_on(2 * reduction_.bytes_of(range)); };
    for (void* const output : reduction_.items[range.item].outputs) {
      if (!goes_on()) return;
      copy(range, packed_, output);
    }
    if (node_ == nullptr) continue;
    for (std::byte* const output : node_->outputs(range.item)) {
      if (!goes_on()) return;
      copy(range, packed_, output);
    }
  }
}

void ResultWriter::deliver_unseen(ElementRange elements, const std::byte* packed) const {
  for (const TensorRange& range : reduction_.turns(elements, 2)) {
    const HostItem& item = reduction_.items[range.item];
    for (std::size_t i = 0; i < item.outputs.size(); ++i) {
      if (node_->is_seen(range.item, i)) continue;
      if (!node_->goes_on(2 * reduction_.bytes_of(range))) return;
      copy(range, packed, item.outputs[i]);
    }
  }
}

void ResultWriter::copy(const TensorRange& range, const std::byte* packed, void* output) const {
  const DType dtype = result_dtype(reduction_.op, reduction_.items[range.item].dtype);
  std::memcpy(at(output, range.begin, dtype), packed + reduction_.results.offset(reduction_.position_of(range)),
              static_cast<std::size_t>(range.end - range.begin) * size_of(dtype));
}

void pack_own_blocks(const ReductionSpace& reduction, int first_replica, std::span<const Block> blocks,
                     std::span<const std::vector<std::uint8_t>> merges, ElementRange elements, std::byte* next,
                     std::vector<FoldInput>& inputs) {
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const ElementImage& layout = reduction.layout_of(blocks[b]);
    const auto own = static_cast<std::size_t>(blocks[b].first - first_replica);
    for (const TensorRange& range : reduction.space.pieces(elements)) {
      const HostItem& item = reduction.items[range.item];
      const std::int64_t count = range.end - range.begin;
      void* const target = next + layout.offset(reduction.position_of(range)) - layout.offset(elements.begin);
      if (is_leaf(blocks[b])) {
        std::memcpy(target, at(item.inputs[own], range.begin, item.dtype),
                    static_cast<std::size_t>(count) * size_of(item.dtype));
        continue;
      }
      inputs.clear();
      for (std::size_t i = own; i < own + merges[b].size(); ++i)
        inputs.push_back({at(item.inputs[i], range.begin, item.dtype), false});
      reduce({.op = reduction.op,
              .dtype = item.dtype,
              .inputs = inputs,
              .merges = merges[b],
              .outputs = std::span(&target, 1),
              .result = FoldResult::partial},
             count);
    }
    next += layout.bytes(elements);
  }
}

PartialFolder::PartialFolder(const RankSchedule& schedule, const ReductionSpace& reduction, const ResultWriter& writer,
                             int rank)
    : schedule_(schedule),
      reduction_(reduction),
      writer_(writer),
      first_replica_(schedule.layout().first_replica[static_cast<std::size_t>(rank)]) {}

const std::byte* PartialFolder::array_of(const Partials& partials, std::span<const Block> blocks, std::size_t index,
                                         std::int64_t position) const {
  const ElementImage& layout = reduction_.layout_of(blocks[index]);
  return partials.arrays[index] + layout.offset(position) - layout.offset(partials.elements.begin);
}

std::span<const std::byte> PartialFolder::pack(Segment& segment, int stage, ElementRange elements,
                                               Workspace& workspace) {
  const std::vector<Block>& shipped = schedule_.stage(stage).shipped;
  const std::size_t bytes = reduction_.message_bytes(shipped, elements);
  if (stage == schedule_.first_stage()) {
    const std::span<std::byte> buffer = segment.new_buffer(bytes, workspace);
    pack_own_blocks(reduction_, first_replica_, shipped, schedule_.stage(stage).shipped_merges, elements, buffer.data(),
                    inputs_);
    return buffer;
  }
  const Partials& partials = segment.partials_of(elements);
  if (shipped.size() == 1) return {array_of(partials, shipped, 0, elements.begin), bytes};
  const std::span<std::byte> buffer = segment.new_buffer(bytes, workspace);
  std::byte* next = buffer.data();
  for (std::size_t b = 0; b < shipped.size(); ++b) {
    const std::size_t size = reduction_.layout_of(shipped[b]).bytes(elements);
    std::memcpy(next, array_of(partials, shipped, b, elements.begin), size);
    next += size;
  }
  return buffer;
}

Partials PartialFolder::fold(Segment& segment, int stage, const SliceInputs& slice, Workspace& workspace) {
  const StageFold& plan = fold_of(stage);
  const bool is_root = stage + 1 == schedule_.stage_count();
  Partials partials{slice.kept, {}};
  if (slice.kept.size() == 0) return partials;
  if (!is_root) {
    for (const auto& output : plan.outputs) {
      const std::size_t bytes = reduction_.layout_of(output.block).bytes(slice.kept);
      partials.arrays.push_back(segment.new_buffer(bytes, workspace).data());
    }
  }
  std::size_t buffers = 1;  // number of buffers that are read or written for each element
  for (const auto& blocks : plan.inputs) buffers += blocks.size() + 1;
  for (const TensorRange& range : reduction_.turns(slice.kept, buffers)) {
    if (node_ != nullptr && !node_->goes_on(buffers * reduction_.bytes_of(range))) return partials;
    const HostItem& item = reduction_.items[range.item];
    const std::int64_t count = range.end - range.begin;
    collect_inputs(segment, stage, slice, range);
    if (is_root) {
      const std::vector<void*> places = writer_.places_of(range);
      if (!places.empty()) add_inputs(item, plan.outputs.front().merges, places, FoldResult::finished, count);
      continue;
    }
    std::vector<FoldInput> all = std::exchange(inputs_, {});
    auto next = all.begin();
    for (std::size_t o = 0; o < plan.outputs.size(); ++o) {
      const auto& output = plan.outputs[o];
      const ElementImage& layout = reduction_.layout_of(output.block);
      void* const target =
          partials.arrays[o] + layout.offset(reduction_.position_of(range)) - layout.offset(slice.kept.begin);
      if (output.inputs == 1) {
        const DType dtype = is_leaf(output.block) ? item.dtype : accumulation_dtype(reduction_.op, item.dtype);
        std::memcpy(target, next->data, static_cast<std::size_t>(count) * size_of(dtype));
      } else {
        inputs_.assign(next, next + static_cast<std::ptrdiff_t>(output.inputs));
        add_inputs(item, output.merges, std::span(&target, 1), FoldResult::partial, count);
      }
      next += static_cast<std::ptrdiff_t>(output.inputs);
    }
  }
  return partials;
}

void PartialFolder::collect_inputs(const Segment& segment, int stage, const SliceInputs& slice,
                                   const TensorRange& range) {
  const StageFold& plan = fold_of(stage);
  const HostItem& item = reduction_.items[range.item];
  const std::int64_t position = reduction_.position_of(range);
  inputs_.clear();
  for (std::size_t group = 0; group < plan.inputs.size(); ++group) {
    const auto& blocks = plan.inputs[group];
    if (is_in_node(stage)) {
      for (std::size_t k = 0; k < blocks.size(); ++k) {
        const std::byte* const input = node_->input(static_cast<int>(group), range.item, k);
        inputs_.push_back({at(input, range.begin, item.dtype), false});
      }
      continue;
    }
    const std::byte* message = slice.received[group];
    if (message == nullptr && stage == schedule_.first_stage()) {
      for (const void* const input : item.inputs) inputs_.push_back({at(input, range.begin, item.dtype), false});
      continue;
    }
    const Partials* const own = message == nullptr ? &segment.partials_of(slice.kept) : nullptr;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const ElementImage& layout = reduction_.layout_of(blocks[b]);
      if (own != nullptr) {
        inputs_.push_back({array_of(*own, blocks, b, position), !is_leaf(blocks[b])});
      } else {
        inputs_.push_back({message + layout.offset(position) - layout.offset(slice.kept.begin), !is_leaf(blocks[b])});
        message += layout.bytes(slice.kept);
      }
    }
  }
}

void PartialFolder::add_inputs(const HostItem& item, std::span<const std::uint8_t> merges,
                               std::span<void* const> outputs, FoldResult result, std::int64_t count) {
  reduce({.op = reduction_.op,
          .dtype = item.dtype,
          .inputs = inputs_,
          .merges = merges,
          .outputs = outputs,
          .result = result,
          .replicas = schedule_.layout().replicas()},
         count);
}

}  // namespace lockstep::detail
