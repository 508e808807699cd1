// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_reduce in the levels of a node with many ranks (schedule/levels), through shared memory: the schedule of
// schedule/mixed_radix, whose first stage is a cache domain. In each stage a rank reads partial results of a few ranks,
// from their memory, and adds them to its own. Then the stages run in reverse, and each rank copies results that other
// ranks have. So ranks only read the memory of other ranks. The flat form (node_reduce) reads the inputs of all ranks,
// and writes the outputs of all ranks; most of these lines cross a socket.
//
// Cost for n bytes, g ranks per domain: about 2 n + 2 n / g bytes read, most of them in the own domain; one transfer of
// a cache line for each of the g - 1 other ranks of a stage, and as many in reverse.
//
// The partial results and results of a rank are in scratch memory, which is different for consecutive operations, like
// the slots of the control block (ControlBlock::slots). So no rank waits at the end until others have read its scratch
// memory. Of user memory, other ranks read only the inputs, in stage 0, by the protocol of node_work.

#include "base/check.hpp"
#include "base/processor.hpp"
#include "collectives/host/buffer_table.hpp"
#include "collectives/host/mixed_radix_folds.hpp"
#include "collectives/host/node_stage.hpp"
#include "collectives/host/node_work.hpp"
#include "collectives/host/operations.hpp"
#include "kernels/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace lockstep::detail {
namespace {

/// Where a rank has its results, its partial results and its staged inputs, in its scratch memory. Every rank computes
/// the same for a given rank.
class ScratchLayout {
 public:
  ScratchLayout(const RankSchedule& schedule, const ReductionSpace& reduction, int rank) : reduction_(reduction) {
    const ElementRange all{0, reduction.space.size()};
    for (int stage = 0; stage < schedule.stage_count(); ++stage) {
      const StageStep step = schedule.step(reduction.space, rank, stage, all);
      if (stage == 0) add_results(step);
      if (stage + 1 < schedule.stage_count()) add_partials(step, schedule.layout().replicas());
    }
  }

  /// The offset of the result of element `position`, which the rank keeps in stage 0.
  [[nodiscard]] std::size_t result(std::int64_t position) const {
    const Array& array = array_with(results_, position);
    return array.begin + reduction_.results.offset(position) - reduction_.results.offset(array.elements.begin);
  }
  /// The offset of element `position` in the array of block number `block` after `stage`.
  [[nodiscard]] std::size_t partial(int stage, std::size_t block, std::int64_t position) const {
    const Stage& after = stages_[static_cast<std::size_t>(stage)];
    const Array& array = array_with(after.arrays[block], position);
    const ElementImage& image = reduction_.layout_of(after.blocks[block]);
    return array.begin + image.offset(position) - image.offset(array.elements.begin);
  }
  /// The offset of element `position` of the staged input of replica number `replica` of the rank.
  [[nodiscard]] std::size_t staged_input(std::size_t replica, std::int64_t position) const {
    return end_ + replica * whole_lines(reduction_.leaves.bytes({0, reduction_.space.size()})) +
           reduction_.leaves.offset(position);
  }
  /// Bytes without staged inputs.
  [[nodiscard]] std::size_t bytes() const noexcept { return end_; }
  [[nodiscard]] std::size_t bytes_with_inputs(int replicas) const {
    return staged_input(static_cast<std::size_t>(replicas), 0);
  }

 private:
  struct Array {
    ElementRange elements;
    std::size_t begin;
  };
  struct Stage {
    std::vector<Block> blocks;
    std::vector<std::vector<Array>> arrays;  // by block and slice
  };

  static const Array& array_with(const std::vector<Array>& arrays, std::int64_t position) {
    for (const Array& array : arrays) {
      if (array.elements.begin <= position && position < array.elements.end) return array;
    }
    LOCKSTEP_CHECK(false && "a rank reads elements that another rank does not keep");
    return arrays.front();
  }

  void add_results(const StageStep& step) {
    for (const SliceStep& slice : step.slices) {
      results_.push_back({slice.kept, end_});
      end_ += whole_lines(reduction_.results.bytes(slice.kept));
    }
  }

  void add_partials(const StageStep& step, int replicas) {
    Stage& after = stages_.emplace_back();
    after.blocks = aligned_blocks(step.bounds.front(), step.bounds.back(), replicas);
    for (const Block& block : after.blocks) {
      auto& arrays = after.arrays.emplace_back();
      for (const SliceStep& slice : step.slices) {
        arrays.push_back({slice.kept, end_});
        end_ += whole_lines(reduction_.layout_of(block).bytes(slice.kept));
      }
    }
  }

  const ReductionSpace& reduction_;
  std::vector<Array> results_;
  std::vector<Stage> stages_;
  std::size_t end_ = 0;
};

class LevelReduce final : public Operation {
 public:
  LevelReduce(const Descriptor& descriptor, std::shared_ptr<const RankSchedule> schedule, NodeGroup& group,
              const std::vector<HostItem>& items)
      : Operation(descriptor),
        schedule_(std::move(schedule)),
        group_(group),
        rank_(group.rank()),
        reduction_(descriptor.op, items),
        published_(without_outputs(items)),
        neighbours_(neighbours_of(*schedule_, group)),
        work_(group, neighbours_, neighbours_),
        own_(group, published_, descriptor.op),
        tables_(neighbours_.size()) {
    sources_.emplace_back(rank_, ScratchLayout(*schedule_, reduction_, rank_));
    make_steps();
  }

  bool is_reusable() const noexcept override { return true; }
  bool survives_faults() const noexcept override { return true; }
  bool uses_transfers() const noexcept override { return false; }

  void arrive(std::uint64_t tag, Arrival& arrival) override {
    tag_ = tag;
    next_step_ = next_source_ = 0;
    phase_ = 0;
    work_.arrive(tag, arrival);
    own_.refresh(group_);
    arrival.table() = static_cast<std::uint64_t>(own_.address());
    arrival.table_id() = own_.id();
    arrival.flags = own_.is_visible() ? 0 : flag_staged;
    const ScratchLayout& layout = sources_.front().layout;
    const std::size_t bytes = own_.is_visible() ? layout.bytes() : layout.bytes_with_inputs(replicas_of(rank_));
    scratch_ = group_.reserve_scratch(work_.slot(), std::max(bytes, line_bytes));
    group_.own_control_block().level_progress.scratch[work_.slot()] =
        static_cast<std::uint64_t>(group_.address_of(scratch_, bytes));
    if (!own_.is_visible()) stage_inputs();
  }

  void start(Transport&, Workspace&) override {}

  bool advance(Transport&, Workspace&) override {
    for (; next_step_ < steps_.size(); ++next_step_) {
      const Step& step = steps_[next_step_];
      for (; next_source_ < step.sources.size(); ++next_source_) {
        if (!has_reached(sources_[step.sources[next_source_]], step.awaited_phase)) return false;
      }
      if (!run(step)) return false;
      next_source_ = 0;
      ++phase_;
      group_.at_flag();
      group_.own_control_block().level_progress.phase.store(level_phase(tag_, phase_), std::memory_order_release);
    }
    for (const SliceStep& slice : stages_.front().work.slices)
      write_outputs(slice.kept, scratch_, sources_.front().layout);
    return true;
  }

  /// The count is the sum of all ranks' phases, because a rank that has done its own work waits for the other ranks.
  DataProgress progress(const Transport&) const noexcept override {
    DataProgress progress;
    for (int member = 0; member < group_.size(); ++member)
      progress.count += group_.control_block(member).level_progress.phase.load(std::memory_order_relaxed);
    return progress;
  }

  /// The ranks that have done the least: all others wait for them, most of them through ranks in between.
  std::vector<int> awaited_ranks() const override {
    std::vector<int> ranks;
    std::uint64_t least = level_phase(tag_, phase_ + 1);
    for (int member = 0; member < group_.size(); ++member) {
      const std::uint64_t phase = std::max(
          group_.control_block(member).level_progress.phase.load(std::memory_order_acquire), level_phase(tag_, 0));
      if (phase < least) ranks.clear();
      least = std::min(least, phase);
      if (phase == least && member != rank_) ranks.push_back(member);
    }
    return ranks;
  }

  bool abandon(Transport&) noexcept override {
    work_.abandon(own_);
    return false;
  }

 private:
  /// A rank whose memory this rank reads. The first one is this rank.
  struct Source {
    Source(int number, ScratchLayout scratch_layout) : rank(number), layout(std::move(scratch_layout)) {}
    int rank;
    ScratchLayout layout;
    const std::byte* scratch = nullptr;  // in the current run
  };
  struct Stage {
    StageStep work;
    StageFold fold;
    std::vector<std::vector<std::size_t>>
        sources;  // by slice and group: index in sources_; 0, this rank, for its own group
  };
  struct Step {
    bool folds;
    std::size_t stage;
    std::uint64_t awaited_phase;       // phase that the sources must have reached
    std::vector<std::size_t> sources;  // indices in sources_
  };

  /// The other ranks of this rank's domain: the first stage joins them.
  static std::vector<int> neighbours_of(const RankSchedule& schedule, const NodeGroup& group) {
    std::vector<int> ranks;
    for (int rank = 0; rank < group.size(); ++rank) {
      if (rank != group.rank() && schedule.are_together(rank, group.rank(), 1)) ranks.push_back(rank);
    }
    return ranks;
  }

  [[nodiscard]] int replicas_of(int rank) const {
    const auto& first = schedule_->layout().first_replica;
    return first[static_cast<std::size_t>(rank) + 1] - first[static_cast<std::size_t>(rank)];
  }

  std::size_t source_of(int rank) {
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      if (sources_[k].rank == rank) return k;
    }
    sources_.emplace_back(rank, ScratchLayout(*schedule_, reduction_, rank));
    return sources_.size() - 1;
  }

  void make_steps() {
    const ElementRange all{0, reduction_.space.size()};
    const auto count = static_cast<std::size_t>(schedule_->stage_count());
    std::size_t splitting = 0;
    for (std::size_t index = 0; index < count; ++index) {
      StageStep work = schedule_->step(reduction_.space, rank_, static_cast<int>(index), all);
      if (work.kind != StageKind::replicate) splitting = index + 1;
      Step step{true, index, index, {}};
      Stage& stage = stages_.emplace_back();
      for (const SliceStep& slice : work.slices) {
        auto& sources = stage.sources.emplace_back(work.bounds.size() - 1, 0);
        for (const auto& receive : slice.receives) {
          const std::size_t source = source_of(receive.peer);
          sources[static_cast<std::size_t>(receive.group)] = source;
          if (index > 0 && slice.kept.size() > 0) add(step.sources, source);
        }
      }
      stage.fold = stage_fold(work.bounds, schedule_->layout().replicas(),
                              index == 0 ? std::optional(every_group) : std::nullopt);
      stage.work = std::move(work);
      steps_.push_back(std::move(step));
    }
    for (std::size_t index = splitting; index-- > 0;) {
      Step step{false, index, count + splitting - 1 - index, {}};
      for (const SliceStep& slice : stages_[index].work.slices) {
        for (const auto& from : slice.sends) {
          const std::size_t source = source_of(from.peer);
          if (from.elements.size() > 0) add(step.sources, source);
        }
      }
      steps_.push_back(std::move(step));
    }
  }

  static void add(std::vector<std::size_t>& sources, std::size_t source) {
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
  }

  /// Whether `source` has reached `phase` of this operation. If it has reached another epoch, it has abandoned the
  /// operation.
  bool has_reached(Source& source, std::uint64_t phase) {
    const LevelProgress& progress = group_.control_block(source.rank).level_progress;
    group_.at_flag();
    const std::uint64_t reached = progress.phase.load(std::memory_order_acquire);
    if (reached < level_phase(tag_, phase)) return false;
    if (epoch_of_tag(reached / most_level_phases) != epoch_of_tag(tag_)) return false;
    group_.at_read(source.rank, &progress, line_bytes);
    look_up_scratch(source, source.layout.bytes());
    return true;
  }

  void look_up_scratch(Source& source, std::size_t bytes) const {
    const auto address =
        static_cast<NodeAddress>(group_.control_block(source.rank).level_progress.scratch[work_.slot()].get());
    source.scratch = group_.resolve(source.rank, address, bytes);
  }

  /// Returns false if a rank whose inputs this rank reads has abandoned the operation.
  bool run(const Step& step) {
    if (!step.folds) {
      pull(step.stage);
      return true;
    }
    if (step.stage > 0) {
      fold(step.stage);
      return true;
    }
    // no rank waits for a rank without a share, so it must not look at memory of other ranks
    if (!has_share()) return true;
    if (!work_.begin()) return false;
    look_up_neighbours();
    fold(step.stage);
    return work_.end();
  }

  /// Whether this rank adds something in stage 0.
  [[nodiscard]] bool has_share() const {
    const std::vector<SliceStep>& slices = stages_.front().work.slices;
    return std::any_of(slices.begin(), slices.end(), [](const SliceStep& slice) { return slice.kept.size() > 0; });
  }

  void look_up_neighbours() {
    for (std::size_t k = 0; k < neighbours_.size(); ++k) {
      const int rank = neighbours_[k];
      const Arrival& arrival = work_.arrival_of(rank);
      if (arrival.flags.get() == flag_staged) {
        Source& source = sources_[source_of(rank)];
        look_up_scratch(source, source.layout.bytes_with_inputs(replicas_of(rank)));
      } else if (tables_[k].id() != arrival.table_id().get()) {
        tables_[k].read(group_, rank, static_cast<NodeAddress>(arrival.table().get()), arrival.table_id().get(),
                        published_, replicas_of(rank), reduction_.op);
      }
    }
  }

  void stage_inputs() {
    const ScratchLayout& layout = sources_.front().layout;
    for (std::size_t item = 0; item < published_.size(); ++item) {
      const HostItem& each = published_[item];
      if (each.count() == 0) continue;
      for (std::size_t i = 0; i < each.inputs.size(); ++i) {
        std::memcpy(scratch_ + layout.staged_input(i, reduction_.space.start(item)), each.inputs[i],
                    static_cast<std::size_t>(each.count()) * size_of(each.dtype));
      }
    }
  }

  /// Appends the inputs of `rank` to `inputs_`.
  void add_leaves(int rank, const TensorRange& range) {
    const HostItem& item = published_[range.item];
    const auto found = std::find(neighbours_.begin(), neighbours_.end(), rank);
    for (std::size_t i = 0; i < static_cast<std::size_t>(replicas_of(rank)); ++i) {
      const std::byte* data = nullptr;
      if (rank == rank_) {
        data = at(static_cast<const std::byte*>(item.inputs[i]), range.begin, item.dtype);
      } else if (work_.arrival_of(rank).flags.get() == flag_staged) {
        const Source& source = sources_[source_of(rank)];
        data = source.scratch + source.layout.staged_input(i, reduction_.position_of(range));
      } else {
        const PeerTable& table = tables_[static_cast<std::size_t>(found - neighbours_.begin())];
        data = at(table.input(range.item, i), range.begin, item.dtype);
      }
      if (rank != rank_) group_.at_read(rank, data, reduction_.bytes_of(range));
      inputs_.push_back({data, false});
    }
  }

  /// Appends the partial results that `source` has after the previous stage to `inputs_`.
  void add_partials(const Source& source, int stage, std::span<const Block> blocks, const TensorRange& range) {
    const std::byte* const scratch = source.rank == rank_ ? scratch_ : source.scratch;
    const std::int64_t position = reduction_.position_of(range);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const std::byte* const data = scratch + source.layout.partial(stage - 1, b, position);
      const bool is_leaf = blocks[b].last - blocks[b].first == 1;
      if (source.rank != rank_) {
        const DType dtype = published_[range.item].dtype;
        const DType stored = is_leaf ? dtype : accumulation_dtype(reduction_.op, dtype);
        group_.at_read(source.rank, data, static_cast<std::size_t>(range.end - range.begin) * size_of(stored));
      }
      inputs_.push_back({data, !is_leaf});
    }
  }

  void fold(std::size_t index) {
    const Stage& stage = stages_[index];
    const int first_rank = index == 0 ? first_rank_of_domain() : 0;
    for (std::size_t k = 0; k < stage.work.slices.size(); ++k) {
      const SliceStep& slice = stage.work.slices[k];
      for (const TensorRange& range : reduction_.space.pieces(slice.kept)) {
        inputs_.clear();
        for (std::size_t group = 0; group < stage.fold.inputs.size(); ++group) {
          if (index == 0) {
            add_leaves(first_rank + static_cast<int>(group), range);
          } else {
            const Source& source = sources_[stage.sources[k][group]];
            add_partials(source, static_cast<int>(index), stage.fold.inputs[group], range);
          }
        }
        fold_inputs(index, range);
      }
    }
  }

  /// Writes the partial results of `range` after stage `index`, or the results if it is the last.
  void fold_inputs(std::size_t index, const TensorRange& range) {
    const StageFold& plan = stages_[index].fold;
    const bool is_last = index + 1 == stages_.size();
    const ScratchLayout& layout = sources_.front().layout;
    const HostItem& item = published_[range.item];
    const std::int64_t position = reduction_.position_of(range);
    const std::int64_t count = range.end - range.begin;
    auto next = std::span<const FoldInput>(inputs_);
    for (std::size_t o = 0; o < plan.outputs.size(); ++o) {
      const StageFold::Output& output = plan.outputs[o];
      void* const target =
          scratch_ + (is_last ? layout.result(position) : layout.partial(static_cast<int>(index), o, position));
      if (output.inputs == 1 && !is_last) {
        const DType stored = next.front().accumulated ? accumulation_dtype(reduction_.op, item.dtype) : item.dtype;
        std::memcpy(target, next.front().data, static_cast<std::size_t>(count) * size_of(stored));
      } else {
        reduce({.op = reduction_.op,
                .dtype = item.dtype,
                .inputs = next.first(output.inputs),
                .merges = output.merges,
                .outputs = std::span(&target, 1),
                .result = is_last ? FoldResult::finished : FoldResult::partial,
                .replicas = schedule_->layout().replicas()},
               count);
      }
      next = next.subspan(output.inputs);
    }
  }

  [[nodiscard]] int first_rank_of_domain() const {
    return neighbours_.empty() ? rank_ : std::min(rank_, neighbours_.front());
  }

  /// Copies the results that other ranks of the stage have: to the outputs in stage 0, else to scratch memory.
  void pull(std::size_t index) {
    for (const SliceStep& slice : stages_[index].work.slices) {
      for (const auto& from : slice.sends) {
        if (from.elements.size() == 0) continue;
        const Source& source = sources_[source_of(from.peer)];
        const std::byte* const results = source.scratch + source.layout.result(from.elements.begin);
        const std::size_t bytes = reduction_.results.bytes(from.elements);
        group_.at_read(from.peer, results, bytes);
        if (index == 0) {
          write_outputs(from.elements, source.scratch, source.layout);
        } else {
          std::memcpy(scratch_ + sources_.front().layout.result(from.elements.begin), results, bytes);
        }
      }
    }
  }

  void write_outputs(ElementRange elements, const std::byte* scratch, const ScratchLayout& layout) const {
    for (const TensorRange& range : reduction_.space.pieces(elements)) {
      const HostItem& item = reduction_.items[range.item];
      const DType dtype = result_dtype(reduction_.op, item.dtype);
      const std::byte* const results = scratch + layout.result(reduction_.position_of(range));
      for (void* const output : item.outputs) {
        std::memcpy(at(static_cast<std::byte*>(output), range.begin, dtype), results,
                    static_cast<std::size_t>(range.end - range.begin) * size_of(dtype));
      }
    }
  }

  const std::shared_ptr<const RankSchedule> schedule_;
  NodeGroup& group_;
  const int rank_;
  const ReductionSpace reduction_;
  const std::vector<HostItem> published_;  // the items without outputs: other ranks read only inputs
  const std::vector<int> neighbours_;
  NodeWork work_;
  OwnTable own_;
  std::vector<PeerTable> tables_;  // by neighbour
  std::vector<Source> sources_;
  std::vector<Stage> stages_;
  std::vector<Step> steps_;

  // state of the current run
  std::uint64_t tag_ = 0;
  std::uint64_t phase_ = 0;  // number of steps done
  std::size_t next_step_ = 0;
  std::size_t next_source_ = 0;
  std::byte* scratch_ = nullptr;
  std::vector<FoldInput> inputs_;
};

}  // namespace

std::shared_ptr<Operation> make_level_reduce(const Descriptor& descriptor, std::shared_ptr<const RankSchedule> schedule,
                                             NodeGroup& group, const std::vector<HostItem>& items) {
  return std::make_shared<LevelReduce>(descriptor, std::move(schedule), group, items);
}

}  // namespace lockstep::detail
