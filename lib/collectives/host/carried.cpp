// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Small collectives whose data travels in the messages of the agreement. A reduction sends partial results of the
// canonical tree. The other collectives send the inputs of all ranks that have inputs, one after the other.
//
// In the levels of a large node, the data travels beside the flags; see engine/level_climb.
//
// Cost for each of N nodes: about log4 N rounds; in each round, messages of at most n bytes to about 3 other nodes.
// Inside a node, the data is copied once into shared memory and once out of shared memory. In a reduction, n is the
// number of bytes of one input, times the number of blocks that a group of ranks holds. In a broadcast or scatter, n is
// the number of bytes of the root's input. In the other collectives, n is the number of bytes of all inputs together.

#include "base/processor.hpp"
#include "collectives/engine/carried_data.hpp"
#include "collectives/host/mixed_radix_folds.hpp"
#include "collectives/host/operations.hpp"
#include "kernels/reduce.hpp"
#include "schedule/mixed_radix.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

class CarriedOperation : public Operation, public CarriedData {
 public:
  CarriedOperation(const Descriptor& descriptor, std::shared_ptr<const CarrySteps> steps, NodeGroup* group)
      : Operation(descriptor), steps_(std::move(steps)), group_(group) {}

  bool is_reusable() const noexcept final { return true; }
  bool uses_transfers() const noexcept final { return false; }
  CarriedData* carried() noexcept final { return this; }
  /// The leader of the node writes the result to its payload, the other ranks their own parts.
  void arrive(std::uint64_t tag, Arrival& arrival) final {
    if (group_ == nullptr || group_->size() == 1) return;
    const bool is_leader = group_->rank() == 0;
    const std::size_t bytes = is_leader ? bytes_after(steps().bounds().size() - 1) : own_bytes();
    const NodeGroup::Payload payload = group_->reserve_payload(ControlBlock::slot_of(tag), bytes);
    if (is_leader) return;
    arrival.staging() = static_cast<std::uint64_t>(payload.address);
    pack(payload.data);
  }
  void start(Transport&, Workspace&) final {}
  bool advance(Transport& transport, Workspace&) final { return transport.all_posted_left(); }
  std::vector<int> awaited_ranks() const final { return {}; }
  bool abandon(Transport&) noexcept final { return false; }
  bool survives_faults() const noexcept final { return true; }

 protected:
  [[nodiscard]] const CarrySteps& steps() const noexcept { return *steps_; }
  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return steps_->layout(); }
  [[nodiscard]] int first_replica() const { return layout().first(steps_->rank()); }

 private:
  const std::shared_ptr<const CarrySteps> steps_;
  NodeGroup* const group_;
};

/// An all_reduce, reduce or reduce_scatter. A part (see CarriedData) is the data of a group of consecutive ranks. These
/// ranks together hold some blocks of the canonical tree; for each of these blocks, the part has one array of all
/// elements. The last step makes one array with all elements of the results.
class CarriedReduction final : public CarriedOperation {
 public:
  CarriedReduction(const Descriptor& descriptor, std::shared_ptr<const CarrySteps> carry_steps, NodeGroup* group,
                   std::vector<HostItem> items)
      : CarriedOperation(descriptor, std::move(carry_steps), group), reduction_(descriptor.op, std::move(items)) {
    const int rank = steps().rank();
    own_blocks_ = aligned_blocks(layout().first(rank), layout().first(rank + 1), layout().replicas());
    for (const Block& block : own_blocks_) own_merges_.push_back(fold_merges_of_leaves(block));
    for (const std::vector<int>& ranks : steps().bounds()) {
      std::vector<int> bounds;
      for (const int bound : ranks) bounds.push_back(layout().first(bound));
      folds_.push_back(stage_fold(bounds, layout().replicas()));
    }
  }

  std::size_t own_bytes() const override { return bytes_of(own_blocks_); }

  std::size_t part_bytes(std::size_t step, std::size_t group) const override {
    return bytes_of(folds_[step].inputs[group]);
  }
  std::size_t bytes_after(std::size_t step) const override {
    if (step + 1 == folds_.size()) return reduction_.result_bytes();
    std::vector<Block> blocks;
    for (const auto& output : folds_[step].outputs) blocks.push_back(output.block);
    return bytes_of(blocks);
  }

  void pack(std::byte* part) override {
    pack_own_blocks(reduction_, first_replica(), own_blocks_, own_merges_, all(), part, inputs_);
  }

  void join(std::size_t step, std::span<const std::byte* const> parts, std::byte* joined) override {
    const StageFold& fold = folds_[step];
    const bool is_last = step + 1 == folds_.size();
    for (std::size_t i = 0; i < reduction_.items.size(); ++i) {
      const HostItem& item = reduction_.items[i];
      const std::int64_t start = reduction_.space.start(i);
      std::vector<FoldInput> inputs;
      for (std::size_t group = 0; group < parts.size(); ++group) {
        const std::byte* array = parts[group];
        for (const Block& block : fold.inputs[group]) {
          const ElementImage& image = reduction_.layout_of(block);
          inputs.push_back({array + image.offset(start), !is_leaf(block)});
          array += image.bytes(all());
        }
      }
      std::byte* array = joined;
      auto next = inputs.begin();
      for (const auto& output : fold.outputs) {
        const ElementImage& image = is_last ? reduction_.results : reduction_.layout_of(output.block);
        std::byte* const target = array + image.offset(start);
        const auto end = next + static_cast<std::ptrdiff_t>(output.inputs);
        if (output.inputs == 1 && !is_last) {
          const DType dtype = next->accumulated ? accumulation_dtype(reduction_.op, item.dtype) : item.dtype;
          copy(target, next->data, item.count(), dtype);
        } else {
          inputs_.assign(next, end);
          add(item, output.merges, target, is_last ? FoldResult::finished : FoldResult::partial);
        }
        next = end;
        array += image.bytes(all());
      }
    }
  }

  void deliver(const std::byte* result) override {
    const bool is_scattered = descriptor().traits().has_own_outputs();
    for (std::size_t i = 0; i < reduction_.items.size(); ++i) {
      const HostItem& item = reduction_.items[i];
      const DType dtype = result_dtype(reduction_.op, item.dtype);
      const std::byte* const source = result + reduction_.results.offset(reduction_.space.start(i));
      const std::int64_t part = is_scattered ? item.count() / layout().replicas() : item.count();
      for (std::size_t k = 0; k < item.outputs.size(); ++k) {
        const std::int64_t first = is_scattered ? part * (first_replica() + static_cast<int>(k)) : 0;
        copy(item.outputs[k], at(source, first, dtype), part, dtype);
      }
    }
  }

 private:
  /// Bytes of the arrays of `blocks`, which are aligned; a single array of one tensor needs no padding.
  [[nodiscard]] std::size_t bytes_of(std::span<const Block> blocks) const {
    if (blocks.size() != 1 || reduction_.items.size() != 1) return reduction_.message_bytes(blocks, all());
    const HostItem& item = reduction_.items.front();
    const DType stored = is_leaf(blocks.front()) ? item.dtype : accumulation_dtype(reduction_.op, item.dtype);
    return static_cast<std::size_t>(item.count()) * size_of(stored);
  }
  [[nodiscard]] static bool is_leaf(const Block& block) noexcept { return block.last - block.first == 1; }
  [[nodiscard]] ElementRange all() const { return {0, reduction_.space.size()}; }
  static void copy(void* target, const void* source, std::int64_t count, DType dtype) {
    if (count > 0) std::memcpy(target, source, static_cast<std::size_t>(count) * size_of(dtype));
  }
  void add(const HostItem& item, std::span<const std::uint8_t> merges, void* target, FoldResult result) {
    reduce({.op = reduction_.op,
            .dtype = item.dtype,
            .inputs = inputs_,
            .merges = merges,
            .outputs = std::span(&target, 1),
            .result = result,
            .replicas = layout().replicas()},
           item.count());
  }

  const ReductionSpace reduction_;
  std::vector<Block> own_blocks_;
  std::vector<std::vector<std::uint8_t>> own_merges_;  // by block of this rank
  std::vector<StageFold> folds_;                       // by step
  std::vector<FoldInput> inputs_;
};

/// Bytes of the inputs that the replicas [first, last) contribute to an operation that does not reduce.
std::size_t contributed_bytes(const Descriptor& descriptor, std::span<const HostItem> items, int first, int last,
                              int root_replica) {
  const Traits& kind = descriptor.traits();
  std::size_t bytes = 0;
  for (const HostItem& item : items) {
    std::int64_t count = 0;
    if (kind.gathers()) {
      count = item.part_begin(last) - item.part_begin(first);
    } else if (kind.is_all_to_all()) {
      count = item.input_parts.front().back() * item.row_elements * (last - first);
    } else if (first <= root_replica && root_replica < last) {
      count = kind.scatters() ? item.input_parts.front().back() * item.row_elements : item.count();
    }
    bytes += static_cast<std::size_t>(count) * size_of(item.dtype);
  }
  return bytes;
}

/// A broadcast, gather, all_gather, scatter or all_to_all. The part of a group of ranks consists of the inputs of these
/// ranks, ordered by rank, then by item, then by replica.
class CarriedInputs final : public CarriedOperation {
 public:
  CarriedInputs(const Descriptor& descriptor, std::shared_ptr<const CarrySteps> carry_steps, NodeGroup* group,
                std::vector<HostItem> items)
      : CarriedOperation(descriptor, std::move(carry_steps), group), items_(std::move(items)) {
    const int root_replica = descriptor.root < 0 ? -1 : layout().first(descriptor.root);
    offsets_.push_back(0);
    for (int rank = 0; rank < layout().ranks(); ++rank) {
      offsets_.push_back(offsets_.back() + contributed_bytes(descriptor, items_, layout().first(rank),
                                                             layout().first(rank + 1), root_replica));
    }
  }

  std::size_t own_bytes() const override { return bytes_of(steps().rank(), steps().rank() + 1); }
  std::size_t part_bytes(std::size_t step, std::size_t group) const override {
    const std::vector<int>& bounds = steps().bounds()[step];
    return bytes_of(bounds[group], bounds[group + 1]);
  }
  std::size_t bytes_after(std::size_t step) const override {
    const std::vector<int>& bounds = steps().bounds()[step];
    return bytes_of(bounds.front(), bounds.back());
  }

  void pack(std::byte* part) override {
    for (const HostItem& item : items_) {
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        const std::size_t bytes = input_bytes(item, first_replica() + static_cast<int>(i));
        copy(part, item.inputs[i], bytes);
        part += bytes;
      }
    }
  }

  void join(std::size_t step, std::span<const std::byte* const> parts, std::byte* joined) override {
    const std::vector<int>& bounds = steps().bounds()[step];
    for (std::size_t group = 0; group < parts.size(); ++group) {
      const std::size_t bytes = bytes_of(bounds[group], bounds[group + 1]);
      copy(joined, parts[group], bytes);
      joined += bytes;
    }
  }

  void deliver(const std::byte* result) override {
    const bool has_root_input = descriptor().traits().inputs == Place::root;
    for (int rank = 0; rank < layout().ranks(); ++rank) {
      if (has_root_input && rank != descriptor().root) continue;
      const std::byte* next = result + offsets_[static_cast<std::size_t>(rank)];
      for (const HostItem& item : items_) {
        const int last = has_root_input ? layout().first(rank) + 1 : layout().first(rank + 1);
        for (int replica = layout().first(rank); replica < last; ++replica) {
          deliver_input(item, replica, next);
          next += input_bytes(item, replica);
        }
      }
    }
  }

 private:
  [[nodiscard]] std::size_t bytes_of(int first_rank, int last_rank) const {
    return offsets_[static_cast<std::size_t>(last_rank)] - offsets_[static_cast<std::size_t>(first_rank)];
  }
  [[nodiscard]] std::size_t input_bytes(const HostItem& item, int replica) const {
    return contributed_bytes(descriptor(), std::span(&item, 1), replica, replica + 1, replica);
  }
  static void copy(void* target, const void* source, std::size_t bytes) {
    if (bytes > 0) std::memcpy(target, source, bytes);
  }

  /// Copies the elements of `input`, the input of `replica`, that this rank's outputs need.
  void deliver_input(const HostItem& item, int replica, const std::byte* input) const {
    const Traits& kind = descriptor().traits();
    for (std::size_t k = 0; k < item.outputs.size(); ++k) {
      if (kind.gathers()) {
        copy(at(item.outputs[k], item.part_begin(replica), item.dtype), input, input_bytes(item, replica));
      } else if (kind.has_parts()) {
        const auto here = static_cast<std::size_t>(first_replica()) + k;
        const PartBegins& begins = item.input_parts.front();
        const std::int64_t first = begins[here] * item.row_elements;
        const std::int64_t count = begins[here + 1] * item.row_elements - first;
        const int source = kind.scatters() ? 0 : replica;
        copy(
            at(item.outputs[k], item.output_parts[k][static_cast<std::size_t>(source)] * item.row_elements, item.dtype),
            at(input, first, item.dtype), static_cast<std::size_t>(count) * size_of(item.dtype));
      } else {
        copy(item.outputs[k], input, input_bytes(item, replica));
      }
    }
  }

  const std::vector<HostItem> items_;
  std::vector<std::size_t> offsets_;  // byte offset of each rank's inputs, then the end
};

/// Maximum number of bytes of the input of a reduction that each rank reduces for itself in the levels of a node. For
/// larger inputs, ranks that share a cache divide the work.
constexpr std::size_t most_replicated_bytes = 256;

/// The sizes, in bytes, that decide whether data is carried. Equal on all ranks.
struct CarriedBytes {
  std::size_t part = 0;  ///< size of the largest part
  std::size_t sent = 0;  ///< approximate number of bytes that the leader of a node sends in all rounds
};

/// In a reduction, or if only the root has an input, a leader sends all data to every target in every round. In the
/// other collectives, the parts grow from round to round; in all rounds together, a leader sends about the bytes of all
/// inputs.
CarriedBytes carried_bytes(const Descriptor& descriptor, const CarrySteps& steps, std::span<const HostItem> items) {
  const Traits& kind = descriptor.traits();
  if (!kind.reduces()) {
    const int root_replica = descriptor.root < 0 ? -1 : steps.layout().first(descriptor.root);
    const std::size_t whole = contributed_bytes(descriptor, items, 0, steps.layout().replicas(), root_replica);
    return {whole, kind.inputs == Place::root ? whole * steps.messages() : whole};
  }
  std::size_t bytes = 0;  // bytes of one block
  for (const HostItem& item : items) {
    const std::size_t widest = std::max({size_of(item.dtype), size_of(accumulation_dtype(descriptor.op, item.dtype)),
                                         size_of(result_dtype(descriptor.op, item.dtype))});
    bytes += whole_lines(static_cast<std::size_t>(item.count()) * widest);
  }
  bytes *= steps.most_blocks();
  return {bytes, bytes * steps.messages()};
}

}  // namespace

bool is_carried(const Descriptor& descriptor, const CarrySteps& steps, std::span<const HostItem> items) {
  const Traits& kind = descriptor.traits();
  if (!steps.are_possible() || kind.pattern == Pattern::barrier || kind.rows == Rows::own) return false;
  const CarriedBytes bytes = carried_bytes(descriptor, steps, items);
  if (steps.are_levels()) {
    const std::size_t most = kind.reduces() ? most_replicated_bytes * steps.most_blocks() : bytes.part;
    return bytes.part <= std::min(most, ControlBlock::level_payload_bytes);
  }
  // inside a node, the parts are in the payloads, and only the leader joins them
  const bool fits_node = steps.most_ranks() == 1 || (bytes.part <= ControlBlock::most_payload_bytes &&
                                                     bytes.part * steps.most_ranks() <= most_joined_bytes);
  return fits_node && bytes.sent <= most_carried_bytes;
}

std::shared_ptr<Operation> make_carried(const Descriptor& descriptor, std::shared_ptr<const CarrySteps> steps,
                                        NodeGroup* group, std::vector<HostItem> items) {
  if (descriptor.traits().reduces())
    return std::make_shared<CarriedReduction>(descriptor, std::move(steps), group, std::move(items));
  return std::make_shared<CarriedInputs>(descriptor, std::move(steps), group, std::move(items));
}

}  // namespace lockstep::detail
