// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives by the mixed-radix schedules of schedule/mixed_radix. An all_reduce has two phases: a reduce-scatter,
// then an all-gather. A reduce sends only those messages of the two phases that lead to the root. A reduce_scatter has
// only the first phase, and an all_gather only the second; a gather sends only those messages of an all_gather that
// lead to the root. In a broadcast, the first phase is a scatter: in each stage, the group of the root has all
// elements, and sends slices to the other groups; the messages have the same senders, receivers and elements as in a
// reduce-scatter. The group of the root then receives nothing in the all-gather of this stage. A scatter has only the
// first phase of a broadcast. In reduce_scatter, all_gather, gather and scatter, every rank owns exactly one slice
// (MixedRadix::is_even): the parts of its replicas. In the _v forms these slices have different sizes.
//
// The vector is cut into segments, and each segment goes through all stages. The additions of one segment overlap with
// the messages of another segment, and work inside the node overlaps with messages between nodes. All ranks start the
// steps of their segments in the same order: segment c enters stage s when segment c + 2 enters stage s - 1. Therefore,
// messages between two ranks match without tags.
//
// If the ranks of a node share memory, the first stage runs in shared memory: each rank reads its slice of all inputs
// of its node. The rank also receives the results of its slice from other nodes, and writes these results to all
// outputs of its node.
//
// Cost: see schedule/mixed_radix. In addition, a rank needs at most 3 n bytes of staging memory, and less if there are
// more segments.

#include "collectives/engine/open_transfers.hpp"
#include "collectives/host/mixed_radix_folds.hpp"
#include "collectives/host/operations.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

namespace lockstep::detail {
namespace {

/// Number of segments that are in one stage at a time: while the partial results of one segment are added, the messages
/// of the next segment are in flight.
constexpr int segments_between_stages = 2;

/// Segment `index` of a space of `size` elements.
ElementRange segment_of(std::int64_t size, std::int64_t index, std::int64_t segments) {
  const auto cut = [&](std::int64_t i) { return size / segments * i + size % segments * i / segments; };
  return {cut(index), cut(index + 1)};
}

enum class Phase : std::uint8_t { reduce_scatter, scatter, all_gather };

/// The phases of a collective: reduce-scatter or scatter or neither, then all-gather or not.
struct Phases {
  bool reduces;
  bool scatters;
  bool gathers;

  /// Whether there is only one phase. Then the slice that a rank owns after the last stage consists of the parts of its
  /// replicas, which may have different sizes.
  [[nodiscard]] bool is_by_parts() const noexcept { return !gathers || !(reduces || scatters); }
};
Phases phases_of(const Traits& kind) { return {kind.reduces(), kind.inputs == Place::root, !kind.has_own_outputs()}; }

/// The shape of a tensor of bytes with the content of one input of `item`.
Shape shape_in_bytes(const HostItem& item) {
  return Shape{item.count() * static_cast<std::int64_t>(size_of(item.dtype))};
}

/// The items of a broadcast of `items`: with bytes as elements, and without an output that is the same memory as the
/// input.
std::vector<HostItem> broadcast_items(const std::vector<HostItem>& items) {
  std::vector<HostItem> result;
  for (const HostItem& item : items) {
    HostItem& bytes = result.emplace_back();
    bytes.dtype = DType::u8;
    bytes.shape = shape_in_bytes(item);
    bytes.inputs = item.inputs;
    const auto is_input = [&](const void* output) { return !item.inputs.empty() && output == item.inputs[0]; };
    std::remove_copy_if(item.outputs.begin(), item.outputs.end(), std::back_inserter(bytes.outputs), is_input);
  }
  return result;
}

/// The first tensor of each slice in the result of scheduled_items, by slice, then the number of tensors. Requires
/// Phases::is_by_parts.
std::vector<std::size_t> first_tensors(const RankSchedule& schedule, std::size_t items) {
  const RankLayout& layout = schedule.layout();
  std::vector<std::size_t> firsts{0};
  for (const int owner : schedule.ranks_by_slice()) {
    const auto at_owner = static_cast<std::size_t>(owner);
    const int replicas = layout.first_replica[at_owner + 1] - layout.first_replica[at_owner];
    firsts.push_back(firsts.back() + static_cast<std::size_t>(replicas) * items);
  }
  return firsts;
}

/// The address of element `elements` of each tensor.
template <class Pointer>
std::vector<Pointer> advanced(const std::vector<Pointer>& tensors, std::int64_t elements, DType dtype) {
  std::vector<Pointer> parts;
  parts.reserve(tensors.size());
  for (const Pointer tensor : tensors) parts.push_back(at(tensor, elements, dtype));
  return parts;
}

/// The items to which the schedule is applied. For an all_reduce or reduce, these are `items`; for a broadcast, see
/// broadcast_items. For the other collectives, there is one new item per replica and item, in the order of the slices
/// that the ranks own: the part of the replica. The new items have bytes as elements, except those of a reduce_scatter.
/// The new items of an all_gather or gather have no inputs; `own_parts` gets this rank's input of each new item, and
/// null for the new items of other ranks.
std::vector<HostItem> scheduled_items(const Traits& kind, const RankSchedule& schedule, int rank,
                                      std::vector<HostItem> items, std::vector<const void*>& own_parts) {
  const Phases phases = phases_of(kind);
  if (!phases.is_by_parts()) return phases.reduces ? std::move(items) : broadcast_items(items);
  const RankLayout& layout = schedule.layout();
  std::vector<HostItem> parts;
  for (const int owner : schedule.ranks_by_slice()) {
    const auto at_owner = static_cast<std::size_t>(owner);
    for (int replica = layout.first_replica[at_owner]; replica < layout.first_replica[at_owner + 1]; ++replica) {
      const auto local = static_cast<std::size_t>(replica - layout.first_replica[at_owner]);
      for (const HostItem& item : items) {
        const ElementRange elements = item.part_of(kind, replica, layout.replicas());
        HostItem part;
        part.dtype = phases.reduces ? item.dtype : DType::u8;
        part.shape =
            Shape{phases.reduces ? elements.size() : elements.size() * static_cast<std::int64_t>(size_of(item.dtype))};
        if (phases.gathers) {
          own_parts.push_back(owner == rank ? item.inputs[local] : nullptr);
          part.outputs = advanced(item.outputs, elements.begin, item.dtype);
        } else {
          part.inputs = advanced(item.inputs, elements.begin, item.dtype);
          if (owner == rank) part.outputs.push_back(item.outputs[local]);
        }
        parts.push_back(std::move(part));
      }
    }
  }
  return parts;
}

/// One step of one segment: one stage in one phase.
struct PlannedStep {
  std::size_t segment;
  int stage;
  Phase phase;
  int index;  // index among the steps of the segment on this rank
  int tick;   // logical time of the step, equal on all ranks
};

/// The steps of this rank, in an order that is the same on all ranks. If `shares_node`, ranks write results to all
/// outputs of their node, so the first stage has no all-gather.
std::vector<PlannedStep> order_steps(const RankSchedule& schedule, Phases phases, bool shares_node) {
  const int stages = schedule.stage_count();
  std::vector<PlannedStep> order;
  for (int segment = 0; segment < schedule.segments(); ++segment) {
    int steps = 0;
    for (int index = 0; index < 2 * stages; ++index) {
      const bool is_first = index < stages;
      const Phase phase = !is_first ? Phase::all_gather : phases.scatters ? Phase::scatter : Phase::reduce_scatter;
      const int stage = is_first ? index : 2 * stages - 1 - index;
      const bool replicates = schedule.radices()[static_cast<std::size_t>(stage)].kind == StageKind::replicate;
      // in the first step of a scatter, the root's group writes the input to its own outputs, even without peers
      if (!schedule.stage(stage).has_peers && (phase != Phase::scatter || stage != 0)) continue;
      if (is_first ? !phases.reduces && !phases.scatters : !phases.gathers) continue;
      if (!is_first && (replicates || (shares_node && stage == 0))) continue;
      order.push_back(
          {static_cast<std::size_t>(segment), stage, phase, steps++, segment + segments_between_stages * index});
    }
  }
  std::sort(order.begin(), order.end(), [](const PlannedStep& a, const PlannedStep& b) {
    return std::tie(a.tick, a.segment, a.index) < std::tie(b.tick, b.segment, b.index);
  });
  return order;
}

class MixedRadixExchange final : public Operation {
 public:
  MixedRadixExchange(const Descriptor& descriptor, std::shared_ptr<const RankSchedule> schedule, int rank,
                     std::vector<HostItem> items, NodeGroup* group)
      : Operation(descriptor),
        phases_(phases_of(descriptor.traits())),
        schedule_(std::move(schedule)),
        rank_(rank),
        first_tensors_(phases_.is_by_parts() ? first_tensors(*schedule_, items.size()) : std::vector<std::size_t>()),
        reduction_(descriptor.op, scheduled_items(descriptor.traits(), *schedule_, rank, std::move(items), own_parts_)),
        writer_(reduction_),
        folder_(*schedule_, reduction_, writer_, rank) {
    // in a gather or scatter, only the node of the root accesses memory of other ranks
    const bool is_rooted = leads_to_root() ? !phases_.reduces : phases_.scatters && !phases_.gathers;
    if (group != nullptr && group->size() > 1 && (!is_rooted || is_with_root(rank, 1))) make_node(*group);
  }

  void arrive(std::uint64_t tag, Arrival& arrival) override {
    if (!node_) return;
    node_->arrive(tag, arrival);
    // each rank of the only node would need staging memory for the parts of all ranks
    const bool is_only_node = schedule_->stage_count() == 1 && phases_.is_by_parts();
    if (is_only_node && !node_->all_seen()) arrival.flags = flag_refused;
  }

  void start(Transport& transport, Workspace& workspace) override {
    shares_node_ = node_ && node_->start();
    const auto& radices = schedule_->radices();
    const auto first_message = radices.begin() + (shares_node_ || !schedule_->stage(0).has_peers ? 1 : 0);
    const bool gathers =
        phases_.gathers && first_message != radices.end() && first_message->kind != StageKind::replicate;
    const std::size_t bytes = reduction_.result_bytes();
    // if only the root has outputs, the other nodes have no results to write
    const bool has_results = phases_.gathers && (!leads_to_root() || is_with_root(rank_, 1));
    std::byte* packed = shares_node_ && has_results ? node_->results(bytes) : nullptr;
    if ((gathers || phases_.scatters) && packed == nullptr) {
      packed_results_ = workspace.take(bytes);
      packed = packed_results_.data();
    }
    NodeStage* const node = shares_node_ ? &*node_ : nullptr;
    writer_.start(packed, node);
    folder_.start(node);
    has_own_parts_ = phases_.reduces || phases_.scatters;
    order_ = order_steps(*schedule_, phases_, shares_node_);
    for (int i = 0; i < schedule_->segments(); ++i)
      segments_.push_back(SegmentState{Segment(segment_of(reduction_.space.size(), i, schedule_->segments()))});
    for (const PlannedStep& planned : order_) ++segments_[planned.segment].left;
    post_ready_steps(transport, workspace);
  }

  bool advance(Transport& transport, Workspace& workspace) override {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Step& step : under_way_) {
        step.receives.test(transport);
        if (!step.receives.is_empty() || !complete(step, workspace)) continue;
        step.is_complete = true;
        moved = true;
      }
      std::erase_if(under_way_, [](const Step& step) { return step.is_complete; });
      moved = post_ready_steps(transport, workspace) || moved;
    }
    test_sends(transport);
    for (SegmentState& each : segments_) {
      if (each.segment.buffer_count() != 0 && each.left == 0 && each.open_sends == 0) each.segment.release(workspace);
    }
    if (next_ < order_.size() || !under_way_.empty() || !has_own_parts_) return false;
    if (!has_left_node() || !sends_.is_empty()) return false;
    if (shares_node_) node_->require_outputs();
    workspace.give_back(std::move(packed_results_));
    return true;
  }

  DataProgress progress(const Transport& transport) const noexcept override {
    DataProgress progress = Operation::progress(transport);
    if (shares_node_) progress.count += node_->steps_of_all();
    return progress;
  }

  std::vector<int> awaited_ranks() const override {
    std::vector<int> ranks;
    for (const Step& step : under_way_) {
      ranks.insert(ranks.end(), step.receives.numbers().begin(), step.receives.numbers().end());
    }
    if (shares_node_ && ranks.empty()) {
      for (const int member : node_->unfinished()) ranks.push_back(rank_of(member));
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  bool abandon(Transport& transport) noexcept override {
    std::vector<Transfer> transfers = sends_.take();
    std::vector<Buffer> buffers;
    bool is_short = false;
    try {
      for (const Step& step : under_way_)
        transfers.insert(transfers.end(), step.receives.transfers().begin(), step.receives.transfers().end());
      std::size_t count = 1;
      for (const SegmentState& each : segments_) count += each.segment.buffer_count();
      buffers.reserve(count);
    } catch (const std::bad_alloc&) {
      is_short = true;
    }
    const auto leave = [&](Buffer& buffer) {
      if (is_short) {
        buffer.leak();
      } else {
        buffers.push_back(std::move(buffer));
      }
    };
    leave(packed_results_);
    for (SegmentState& each : segments_) {
      for (Buffer& buffer : each.segment.take_buffers()) leave(buffer);
    }
    // other ranks of the node may access this rank's memory before this rank has started
    if (node_) node_->abandon(is_short || !transfers.empty());
    under_way_.clear();
    if (!is_short) transport.abandon(transfers, std::move(buffers));
    return false;
  }
  bool survives_faults() const noexcept override { return true; }

 private:
  struct SegmentState {
    Segment segment;
    int done = 0;  // number of completed steps
    int left = 0;  // number of remaining steps
    int open_sends = 0;
  };
  /// A step whose messages are posted.
  struct Step {
    PlannedStep planned;
    OpenTransfers receives;              // the numbers are the source ranks
    std::vector<SliceInputs> slices;     // used in the reduce-scatter phase
    std::vector<ElementRange> arriving;  // used in the other phases
    bool is_complete = false;
  };

  [[nodiscard]] Segment& segment_of_step(const Step& step) { return segments_[step.planned.segment].segment; }
  [[nodiscard]] StageStep work_of(int rank, int stage, ElementRange elements) const {
    return phases_.is_by_parts() ? schedule_->step(reduction_.space, rank, stage, first_tensors_)
                                 : schedule_->step(reduction_.space, rank, stage, elements);
  }

  // steps

  /// Posts steps in the order of `order_`, up to the first step that must wait until the previous step of its segment
  /// is complete. Returns whether a step was posted.
  bool post_ready_steps(Transport& transport, Workspace& workspace) {
    bool posted = false;
    if (!has_own_parts_ && !write_own_parts()) return false;
    for (; next_ < order_.size() && segments_[order_[next_].segment].done == order_[next_].index; ++next_) {
      const PlannedStep& planned = order_[next_];
      const bool is_in_node = shares_node_ && planned.stage == 0;
      if (planned.stage == 0 && planned.phase == Phase::scatter && !write_input(planned)) return posted;
      if (is_in_node && planned.phase == Phase::scatter) {
        count_done(planned);
      } else if (is_in_node) {
        if (!fold_node(planned, workspace)) return posted;
      } else {
        post(planned, transport, workspace);
      }
      posted = true;
      test_sends(transport);  // messages move only inside MPI calls: the next step may copy for long
    }
    return posted;
  }

  void test_sends(Transport& transport) {
    for (const int segment : sends_.test(transport)) --segments_[static_cast<std::size_t>(segment)].open_sends;
  }

  /// Begins an all_gather or gather: writes the parts of this rank. Returns false if another rank of the node has
  /// abandoned the operation.
  bool write_own_parts() {
    if (shares_node_ && !node_->begin_work()) return false;
    writer_.write({0, reduction_.space.size()}, own_parts_);
    if (shares_node_ && !node_->end_work()) return false;
    has_own_parts_ = true;
    return true;
  }

  /// Begins the scatter of one segment: writes the input of the root. If the ranks of the root's node share memory,
  /// each of them writes its slices. Returns false if another rank of the node has abandoned the operation.
  bool write_input(const PlannedStep& planned) {
    const int root = descriptor().root;
    const ElementRange elements = segments_[planned.segment].segment.elements();
    if (!is_with_root(rank_, shares_node_ ? 1 : 0)) return true;
    if (shares_node_ && !node_->begin_work()) return false;
    std::vector<const void*> inputs;
    for (std::size_t item = 0; item < reduction_.items.size(); ++item) {
      inputs.push_back(shares_node_ ? node_->input(member_of(root), item, 0) : reduction_.items[item].inputs[0]);
    }
    if (shares_node_) {
      for (const SliceStep& slice : work_of(rank_, 0, elements).slices) writer_.write(slice.kept, inputs);
      return node_->end_work();
    }
    writer_.write(elements, inputs);
    return true;
  }

  /// Runs the first stage in shared memory: folds this rank's slices of the node's inputs. Returns false if another
  /// rank of the node has abandoned the operation.
  bool fold_node(const PlannedStep& planned, Workspace& workspace) {
    if (!node_->begin_work()) return false;
    Step step{planned, {}, {}, {}};
    const StageStep work = work_of(rank_, 0, segments_[planned.segment].segment.elements());
    for (const SliceStep& slice : work.slices) step.slices.push_back({slice.kept, {}});
    std::vector<Partials> partials = fold_slices(step, workspace);
    if (!node_->end_work()) return false;
    segment_of_step(step).set_partials(std::move(partials));
    count_done(planned);
    return true;
  }

  void post(const PlannedStep& planned, Transport& transport, Workspace& workspace) {
    Step& step = under_way_.emplace_back(Step{planned, {}, {}, {}});  // `abandon` must find its transfers
    const StageStep work = work_of(rank_, planned.stage, segments_[planned.segment].segment.elements());
    if (planned.phase == Phase::reduce_scatter) {
      for (const SliceStep& slice : work.slices)
        receive_partials(step, slice, work.bounds.size() - 1, transport, workspace);
      for (const SliceStep& slice : work.slices) send_partials(step, slice, transport, workspace);
    } else if (planned.phase == Phase::scatter) {
      for (const SliceStep& slice : work.slices) receive_slice(step, slice, transport);
      for (const SliceStep& slice : work.slices) send_slices(step, slice, transport);
    } else {
      for (const SliceStep& slice : work.slices) receive_results(step, slice, transport);
      for (const SliceStep& slice : work.slices) send_results(step, slice, transport);
    }
    if (step.receives.is_empty() && complete(step, workspace)) under_way_.pop_back();
  }

  /// Processes the received data of `step`. Returns false if the step writes to memory of other ranks of the node, and
  /// one of these ranks has abandoned the operation.
  bool complete(const Step& step, Workspace& workspace) {
    const bool folds = step.planned.phase == Phase::reduce_scatter;
    const bool is_seen = shares_node_ && (!folds || step.planned.stage + 1 == schedule_->stage_count());
    if (is_seen && !node_->begin_work()) return false;
    std::vector<Partials> partials;
    if (!folds) {
      for (const ElementRange& elements : step.arriving) writer_.deliver(elements);
    } else {
      partials = fold_slices(step, workspace);
    }
    if (is_seen && !node_->end_work()) return false;
    if (folds) segment_of_step(step).set_partials(std::move(partials));
    count_done(step.planned);
    return true;
  }

  [[nodiscard]] std::vector<Partials> fold_slices(const Step& step, Workspace& workspace) {
    std::vector<Partials> partials;
    for (const SliceInputs& slice : step.slices)
      partials.push_back(folder_.fold(segment_of_step(step), step.planned.stage, slice, workspace));
    return partials;
  }

  void count_done(const PlannedStep& planned) {
    ++segments_[planned.segment].done;
    --segments_[planned.segment].left;
  }

  // messages of the reduce-scatter phase: partial results

  void receive_partials(Step& step, const SliceStep& slice, std::size_t groups, Transport& transport,
                        Workspace& workspace) {
    if (!wants_partials(rank_, step.planned.stage)) return;
    SliceInputs& inputs = step.slices.emplace_back(SliceInputs{slice.kept, {}});
    inputs.received.resize(groups, nullptr);
    for (const auto& source : slice.receives) {
      const auto group = static_cast<std::size_t>(source.group);
      const std::vector<Block>& blocks = schedule_->stage(step.planned.stage).fold.inputs[group];
      const std::size_t bytes = reduction_.message_bytes(blocks, slice.kept);
      if (bytes == 0) continue;
      const std::span<std::byte> buffer = segment_of_step(step).new_buffer(bytes, workspace);
      inputs.received[group] = buffer.data();
      step.receives.add(source.peer, [&] { return transport.receive(source.peer, buffer); });
    }
  }

  void send_partials(const Step& step, const SliceStep& slice, Transport& transport, Workspace& workspace) {
    const int stage = step.planned.stage;
    ElementRange packed{-1, -1};
    std::span<const std::byte> message;
    for (const auto& target : slice.sends) {
      if (!wants_partials(target.peer, stage)) continue;
      if (reduction_.message_bytes(schedule_->stage(stage).shipped, target.elements) == 0) continue;
      // a message is packed once if all targets get the same elements
      if (target.elements != packed) message = folder_.pack(segment_of_step(step), stage, target.elements, workspace);
      packed = target.elements;
      send(step, target.peer, message, transport);
    }
  }

  /// Whether only the root has outputs.
  [[nodiscard]] bool leads_to_root() const { return descriptor().traits().outputs == Place::root; }

  /// Whether `rank` gets partial results in `stage`. If the last stage of a reduce is a replicating stage (see
  /// schedule/mixed_radix.hpp), only the group of the root needs the results.
  [[nodiscard]] bool wants_partials(int rank, int stage) const {
    const bool is_last = stage + 1 == schedule_->stage_count();
    const bool replicates = schedule_->radices()[static_cast<std::size_t>(stage)].kind == StageKind::replicate;
    return !leads_to_root() || !is_last || !replicates || is_with_root(rank, stage);
  }

  // messages of the scatter and all-gather phases: results, sent from and received into the packed results

  /// Whether `rank` is in the group of the root when `stage` begins.
  [[nodiscard]] bool is_with_root(int rank, int stage) const {
    return descriptor().root >= 0 && schedule_->are_together(rank, descriptor().root, stage);
  }

  void receive_slice(Step& step, const SliceStep& slice, Transport& transport) {
    if (slice.kept.size() == 0 || is_with_root(rank_, step.planned.stage)) return;
    for (const auto& source : slice.receives) {
      if (!is_with_root(source.peer, step.planned.stage)) continue;
      step.receives.add(source.peer, [&] { return transport.receive(source.peer, writer_.packed(slice.kept)); });
      step.arriving.push_back(slice.kept);
    }
  }

  void send_slices(const Step& step, const SliceStep& slice, Transport& transport) {
    if (!is_with_root(rank_, step.planned.stage)) return;
    for (const auto& target : slice.sends) {
      if (target.elements.size() > 0) send(step, target.peer, writer_.packed(target.elements), transport);
    }
  }

  /// Whether `rank` gets results in the all-gather of `stage`. If only the root has outputs, the root and the ranks
  /// that forward results to the root get them. In a broadcast, the group of the root has the results already.
  [[nodiscard]] bool wants_results(int rank, int stage) const {
    return descriptor().root < 0 || is_with_root(rank, stage) == leads_to_root();
  }

  void receive_results(Step& step, const SliceStep& slice, Transport& transport) {
    if (!wants_results(rank_, step.planned.stage)) return;
    for (const auto& source : slice.sends) {
      if (source.elements.size() == 0) continue;
      step.receives.add(source.peer, [&] { return transport.receive(source.peer, writer_.packed(source.elements)); });
      step.arriving.push_back(source.elements);
    }
  }

  void send_results(const Step& step, const SliceStep& slice, Transport& transport) {
    if (slice.kept.size() == 0) return;
    for (const auto& target : slice.receives) {
      if (wants_results(target.peer, step.planned.stage))
        send(step, target.peer, writer_.packed(slice.kept), transport);
    }
  }

  void send(const Step& step, int target, std::span<const std::byte> data, Transport& transport) {
    sends_.add(static_cast<int>(step.planned.segment), [&] { return transport.send(target, data); });
    ++segments_[step.planned.segment].open_sends;
  }

  // inside the node

  void make_node(NodeGroup& group) {
    const RankLayout& layout = schedule_->layout();
    std::vector<int> replicas;
    for (int member = 0; member < group.size(); ++member) {
      const int first = rank_ - group.rank();
      const auto rank = static_cast<std::size_t>(first) + static_cast<std::size_t>(member);
      const int inputs = phases_.reduces ? layout.first_replica[rank + 1] - layout.first_replica[rank] : 0;
      replicas.push_back(phases_.scatters && static_cast<int>(rank) == descriptor().root ? 1 : inputs);
    }
    if (!phases_.gathers) {  // every rank writes only its own outputs
      published_ = reduction_.items;
      for (HostItem& item : published_) item.outputs.clear();
    }
    node_.emplace(group, phases_.gathers ? reduction_.items : published_, descriptor().op, std::move(replicas),
                  phases_.gathers ? reduction_.result_bytes() : 0);
  }

  [[nodiscard]] int rank_of(int member) const { return rank_ - node_->member() + member; }
  [[nodiscard]] int member_of(int rank) const { return rank - rank_ + node_->member(); }

  /// Whether all ranks of the node have done all their reads and writes, and this rank has completed its outputs that
  /// other ranks could not write.
  bool has_left_node() {
    if (!shares_node_) return true;
    node_->finish();
    if (!node_->have_all_finished()) return false;
    const bool has_outputs = phases_.gathers && (!leads_to_root() || descriptor().root == rank_);
    if (!has_outputs || node_->all_seen() || has_taken_results_) return true;
    if (!node_->begin_work()) return false;
    const auto members = static_cast<int>(schedule_->stage(0).fold.inputs.size());
    for (const SegmentState& each : segments_) {
      for (int member = 0; member < members; ++member) {
        if (member != node_->member()) take_results(member, each.segment.elements());
      }
    }
    if (!node_->end_work()) return false;
    has_taken_results_ = true;
    return true;
  }

  /// Copies the slices of `member` in `elements` to the outputs of this rank that `member` could not write.
  void take_results(int member, ElementRange elements) {
    const std::byte* const results = node_->results_of(member, reduction_.result_bytes());
    for (const SliceStep& slice : work_of(rank_of(member), 0, elements).slices)
      writer_.deliver_unseen(slice.kept, results);
  }

  const Phases phases_;
  const std::shared_ptr<const RankSchedule> schedule_;
  int rank_;
  std::vector<const void*> own_parts_;  // inputs of this rank in an all_gather or gather, by item; null for other ranks
  bool has_own_parts_ = false;
  const std::vector<std::size_t> first_tensors_;  // see first_tensors(); empty unless phases_.is_by_parts()
  const ReductionSpace reduction_;
  ResultWriter writer_;
  PartialFolder folder_;
  std::vector<HostItem> published_;  // items without outputs, if the other ranks of the node may access only inputs
  std::optional<NodeStage> node_;
  bool shares_node_ = false;        // whether the first stage runs in the node's shared memory
  bool has_taken_results_ = false;  // whether this rank has copied the results that other ranks could not write
  Buffer packed_results_;           // empty if not needed, or if staging memory of the node is used instead
  std::vector<SegmentState> segments_;
  std::vector<PlannedStep> order_;
  std::size_t next_ = 0;  // index in order_ of the next step
  std::vector<Step> under_way_;
  OpenTransfers sends_;  // the numbers are the segments
};

}  // namespace

std::shared_ptr<Operation> make_mixed_radix_exchange(const Descriptor& descriptor,
                                                     std::shared_ptr<const RankSchedule> schedule, int rank,
                                                     std::vector<HostItem> items, NodeGroup* group) {
  return std::make_shared<MixedRadixExchange>(descriptor, std::move(schedule), rank, std::move(items), group);
}

}  // namespace lockstep::detail
