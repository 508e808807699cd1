// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The data of a mixed-radix exchange: the partial results that a rank packs, receives and folds, and the results that
// it writes. mixed_radix_exchange.cpp orders the steps, and sends and receives the messages.

#pragma once

#include "collectives/call/element_space.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/node_stage.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "kernels/reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The tensors of one collective as one space of elements, and the layouts of this space in memory.
struct ReductionSpace {
  ReductionSpace(ReduceOp reduce_op, std::vector<HostItem> tensors);
  ReductionSpace(const ReductionSpace&) = delete;
  ReductionSpace& operator=(const ReductionSpace&) = delete;

  [[nodiscard]] std::int64_t position_of(const TensorRange& range) const {
    return space.start(range.item) + range.begin;
  }
  /// The layout of the partial result of `block`. The values of a single replica have the type of the tensor; other
  /// partial results have the accumulation type.
  [[nodiscard]] const ElementImage& layout_of(const Block& block) const {
    return block.last - block.first == 1 ? leaves : partials;
  }
  /// Bytes of a message with the partial results of `blocks`.
  [[nodiscard]] std::size_t message_bytes(std::span<const Block> blocks, ElementRange elements) const;
  /// As ElementSpace::pieces, but with smaller pieces: `buffers` buffers of one piece together have at most about
  /// NodeWork::turn_bytes bytes.
  [[nodiscard]] std::vector<TensorRange> turns(ElementRange elements, std::size_t buffers) const;
  [[nodiscard]] std::size_t bytes_of(const TensorRange& range) const {
    return static_cast<std::size_t>(range.end - range.begin) * size_of(items[range.item].dtype);
  }
  [[nodiscard]] std::size_t result_bytes() const { return results.bytes({0, space.size()}); }

  const ReduceOp op;
  const std::vector<HostItem> items;
  const ElementSpace space;
  const ElementImage leaves;
  const ElementImage partials;
  const ElementImage results;
};

/// Partial results of some elements: one array per block of the canonical tree that this rank holds.
struct Partials {
  ElementRange elements;
  std::vector<std::byte*> arrays;
};

/// One segment of the space, with its partial results between two stages.
class Segment {
 public:
  explicit Segment(ElementRange range) : elements_(range) {}

  [[nodiscard]] ElementRange elements() const noexcept { return elements_; }
  /// The partial results of the previous stage that contain `elements`.
  [[nodiscard]] const Partials& partials_of(ElementRange elements) const;
  void set_partials(std::vector<Partials> partials) { partials_ = std::move(partials); }

  /// Returns memory that belongs to this segment until `release` or `take_buffers`.
  [[nodiscard]] std::span<std::byte> new_buffer(std::size_t bytes, Workspace& workspace);
  [[nodiscard]] std::size_t buffer_count() const noexcept { return buffers_.size(); }
  void release(Workspace& workspace);
  [[nodiscard]] std::vector<Buffer> take_buffers() noexcept { return std::exchange(buffers_, {}); }

 private:
  ElementRange elements_;
  std::vector<Partials> partials_;
  std::vector<Buffer> buffers_;
};

/// Writes results to the outputs of this rank, and to the outputs of other ranks of the node that this rank can write.
/// Stops when NodeStage::goes_on returns false.
class ResultWriter {
 public:
  /// `reduction` must outlive this object.
  explicit ResultWriter(const ReductionSpace& reduction) : reduction_(reduction) {}

  /// `packed` is one buffer for all results. It is null if this rank neither sends nor receives messages with results,
  /// and no other rank copies results of this rank. `node` is null if the ranks of the node do not share memory in this
  /// operation.
  void start(std::byte* packed, NodeStage* node) {
    packed_ = packed;
    node_ = node;
  }

  /// All addresses to which the results of `range` are written: in the packed results and in the outputs.
  [[nodiscard]] std::vector<void*> places_of(const TensorRange& range) const;
  /// Memory of the packed results of `elements`.
  [[nodiscard]] std::span<std::byte> packed(ElementRange elements) const {
    return {packed_ + reduction_.results.offset(elements.begin), reduction_.results.bytes(elements)};
  }
  /// Copies `elements` from `sources` to the packed results and to the outputs. `sources` has one tensor per item, of
  /// the dtype of the results; items without a source are left out.
  void write(ElementRange elements, std::span<const void* const> sources) const;
  /// Copies `elements` of the packed results to the outputs.
  void deliver(ElementRange elements) const;
  /// Copies `packed`, the packed results of another rank, to the outputs of this rank that the other rank could not
  /// write.
  void deliver_unseen(ElementRange elements, const std::byte* packed) const;

 private:
  void copy(const TensorRange& range, const std::byte* packed, void* output) const;

  const ReductionSpace& reduction_;
  std::byte* packed_ = nullptr;
  NodeStage* node_ = nullptr;
};

/// The elements of one slice that this rank keeps in a stage of the reduce-scatter phase, and the received messages
/// with partial results of these elements.
struct SliceInputs {
  ElementRange kept;
  std::vector<const std::byte*> received;  ///< messages by group of the stage; null for this rank's group
};

/// Packs the partial results of `blocks`, which must cover only replicas of this rank, as consecutive arrays from
/// `next` on. `first_replica` is the first replica of this rank; `merges` has the fold of each block. The values of a
/// single replica are copied, too, because an output may be the same memory as an input, and may be written while the
/// message is in flight. `inputs` is scratch memory.
void pack_own_blocks(const ReductionSpace& reduction, int first_replica, std::span<const Block> blocks,
                     std::span<const std::vector<std::uint8_t>> merges, ElementRange elements, std::byte* next,
                     std::vector<FoldInput>& inputs);

/// Packs this rank's partial results into messages, and folds the partial results of a stage along the canonical
/// tree.
class PartialFolder {
 public:
  /// All arguments must outlive this object. `rank` is the number of this rank.
  PartialFolder(const RankSchedule& schedule, const ReductionSpace& reduction, const ResultWriter& writer, int rank);

  /// `node` is null if the ranks of the node do not share memory in this operation.
  void start(NodeStage* node) { node_ = node; }

  /// The message of `stage` with this rank's partial results of `elements`.
  [[nodiscard]] std::span<const std::byte> pack(Segment& segment, int stage, ElementRange elements,
                                                Workspace& workspace);
  /// Folds the partial results of all groups of `stage`; stops when NodeStage::goes_on returns false. The last stage
  /// writes results, and returns no arrays.
  [[nodiscard]] Partials fold(Segment& segment, int stage, const SliceInputs& slice, Workspace& workspace);

 private:
  [[nodiscard]] bool is_in_node(int stage) const { return node_ != nullptr && stage == 0; }
  [[nodiscard]] const StageFold& fold_of(int stage) const {
    return is_in_node(stage) ? schedule_.node_fold() : schedule_.stage(stage).fold;
  }
  /// The address of element `position` in the array of block `index` of `blocks`.
  [[nodiscard]] const std::byte* array_of(const Partials& partials, std::span<const Block> blocks, std::size_t index,
                                          std::int64_t position) const;
  /// Sets `inputs_`, in the order of replica ids, to the partial results that other groups have sent and the partial
  /// results of this rank.
  void collect_inputs(const Segment& segment, int stage, const SliceInputs& slice, const TensorRange& range);
  void add_inputs(const HostItem& item, std::span<const std::uint8_t> merges, std::span<void* const> outputs,
                  FoldResult result, std::int64_t count);

  const RankSchedule& schedule_;
  const ReductionSpace& reduction_;
  const ResultWriter& writer_;
  int first_replica_;
  NodeStage* node_ = nullptr;
  std::vector<FoldInput> inputs_;
};

}  // namespace lockstep::detail
