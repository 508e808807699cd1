// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/mixed_radix_exchange.hpp"

#include "base/check.hpp"
#include "collectives/host/element_space.hpp"
#include "collectives/host/node_stage.hpp"
#include "kernels/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace lockstep::detail {
namespace {

const std::byte* at(const void* base, std::int64_t element, DType dtype) {
  return static_cast<const std::byte*>(base) + static_cast<std::size_t>(element) * size_of(dtype);
}
std::byte* at(void* base, std::int64_t element, DType dtype) {
  return static_cast<std::byte*>(base) + static_cast<std::size_t>(element) * size_of(dtype);
}

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

bool is_leaf(const Block& block) { return block.last - block.first == 1; }

/// While one chunk's messages are added, those of the next one fill the wire: so two chunks are in each stage at a
/// time.
constexpr int chunks_between_stages = 2;

/// Chunk `index` of a space of `size` elements.
ElementRange chunk_of(std::int64_t size, std::int64_t index, std::int64_t chunks) {
  const auto cut = [&](std::int64_t i) { return size / chunks * i + size % chunks * i / chunks; };
  return {cut(index), cut(index + 1)};
}

class MixedRadixExchange final : public Operation {
 public:
  MixedRadixExchange(const Descriptor& descriptor, std::shared_ptr<const RankSchedule> plan, int rank,
                     std::vector<HostItem> items, NodeGroup* group)
      : Operation(descriptor),
        plan_(std::move(plan)),
        schedule_(plan_->schedule),
        rank_(rank),
        items_(std::move(items)),
        space_(counts_of(items_)),
        leaves_(space_, sizes_of(items_, [](const HostItem& item) { return item.dtype; })),
        partials_(space_, sizes_of(items_, [op = descriptor.op](
                                               const HostItem& item) { return accumulation_dtype(op, item.dtype); })),
        results_(space_,
                 sizes_of(items_, [op = descriptor.op](const HostItem& item) { return result_dtype(op, item.dtype); })),
        first_replica_(schedule_.layout().first_replica[static_cast<std::size_t>(rank)]) {
    if (group != nullptr && group->size() > 1) make_node(*group);
  }

  void arrive(std::uint64_t tag, Arrival& arrival) override {
    if (node_) node_->arrive(tag, arrival);
  }

  void start(Transport& transport, Workspace& workspace) override {
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

  bool advance(Transport& transport, Workspace& workspace) override {
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

  std::vector<int> awaited_ranks() const override {
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

  bool abandon(Transport& transport) noexcept override {
    const bool has_transfers = !sends_.empty() || !under_way_.empty();
    const bool is_watched = shares_node_ && node_->abandon(has_transfers);
    transport.quarantine(std::move(image_buffer_));
    for (Chunk& chunk : chunks_) {
      for (auto& buffer : chunk.buffers) transport.quarantine(std::move(buffer));
      chunk.buffers.clear();
    }
    return has_transfers || is_watched;
  }

 private:
  enum class Way : std::uint8_t { forth, back };
  struct Receive {
    Transfer transfer;
    int source;
  };
  struct Send {
    Transfer transfer;
    std::size_t chunk;
  };
  /// What this rank knows of some elements: one array per node of the tree.
  struct Held {
    ElementRange elements;
    std::vector<std::byte*> arrays;
  };
  struct Lane {
    ElementRange kept;
    std::vector<const std::byte*> received;  // by part
  };
  struct Step {
    std::size_t chunk = 0;
    int stage = 0;
    Way way = Way::forth;
    std::vector<Receive> receives;
    std::vector<Lane> lanes;             // forth
    std::vector<ElementRange> arriving;  // back
    bool is_complete = false;
  };
  struct Planned {
    std::size_t chunk;
    int stage;
    Way way;
    int turn;  // of the step among those of its chunk on this rank
    int tick;  // when it runs, on every rank
  };
  struct Chunk {
    ElementRange elements;
    int done = 0;  // steps that are complete
    int left = 0;
    int open_sends = 0;
    std::vector<Held> held;
    std::vector<Buffer> buffers;
  };

  // ---- the order of steps ----

  void line_up_steps() {
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

  /// Whether one was posted. Every rank posts in the same order; a step waits for its chunk's step before it.
  bool post_ready_steps(Transport& transport, Workspace& workspace) {
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

  /// The first stage in memory: this rank's lanes of the node's inputs. False when somebody has given up.
  bool fold_node(const Planned& planned, Workspace& workspace) {
    if (!node_->begin_work()) return false;
    Step step;
    step.chunk = planned.chunk;
    const StageStep what = schedule_.step(rank_, 0, chunks_[planned.chunk].elements);
    for (const LaneStep& lane : what.lanes) step.lanes.push_back({space_.snapped(lane.kept), {}});
    complete_forth(step, workspace);
    node_->end_work();
    return true;
  }

  void post(const Planned& planned, Transport& transport, Workspace& workspace) {
    Step step;
    step.chunk = planned.chunk;
    step.stage = planned.stage;
    step.way = planned.way;
    const StageStep what = schedule_.step(rank_, planned.stage, chunks_[planned.chunk].elements);
    if (planned.way == Way::forth) {
      for (const LaneStep& lane : what.lanes) receive_partials(step, what, lane, transport, workspace);
      for (const LaneStep& lane : what.lanes) send_partials(step, lane, transport, workspace);
    } else {
      for (const LaneStep& lane : what.lanes) receive_results(step, lane, transport);
      for (const LaneStep& lane : what.lanes) send_results(step, lane, transport);
    }
    if (!step.receives.empty() || !complete(step, workspace)) under_way_.push_back(std::move(step));
  }

  /// False when it writes to others of the node, and somebody there has given up.
  bool complete(const Step& step, Workspace& workspace) {
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
  void complete_forth(const Step& step, Workspace& workspace) {
    std::vector<Held> held;
    for (const Lane& lane : step.lanes) held.push_back(fold(step, lane, workspace));
    chunks_[step.chunk].held = std::move(held);
    count_done(step);
  }
  void count_done(const Step& step) {
    ++chunks_[step.chunk].done;
    --chunks_[step.chunk].left;
  }

  // ---- inside the node ----

  void make_node(NodeGroup& group) {
    const RankLayout& layout = schedule_.layout();
    std::vector<int> replicas;
    for (int member = 0; member < group.size(); ++member) {
      const auto at = static_cast<std::size_t>(rank_ - group.rank()) + static_cast<std::size_t>(member);
      replicas.push_back(layout.first_replica[at + 1] - layout.first_replica[at]);
    }
    node_.emplace(group, items_, descriptor().op, std::move(replicas));
  }

  /// Whether everybody of the node has read and written all, and this rank has taken what others could not give it.
  bool has_left_node() {
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
  [[nodiscard]] std::size_t stage_bounds() const { return stage_at(0).fold.inputs.size(); }

  /// Copies the lanes of `member` of some elements to this rank's outputs that it could not see.
  void take_results(int member, ElementRange elements) {
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

  // ---- forth: partial results ----

  void receive_partials(Step& step, const StageStep& what, const LaneStep& lane, Transport& transport,
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

  void send_partials(const Step& step, const LaneStep& lane, Transport& transport, Workspace& workspace) {
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

  [[nodiscard]] std::span<const std::byte> outgoing(const Step& step, ElementRange elements, Workspace& workspace) {
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

  /// The nodes of the tree that this rank's own replicas make. Copied even where they are single replicas: outputs may
  /// be written while it travels.
  void pack_leaves(const RankSchedule::Stage& stage, ElementRange elements, std::byte* next) {
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

  /// Adds what all parts know of a lane. The last stage's are the results.
  [[nodiscard]] Held fold(const Step& step, const Lane& lane, Workspace& workspace) {
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

  /// In id order: what the other parts have sent, and what this rank has held.
  void collect_inputs(const Step& step, const Lane& lane, const Piece& piece) {
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

  void finish(std::span<const std::uint8_t> merges, const Piece& piece) {
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

  void add(const HostItem& item, std::span<const std::uint8_t> merges, std::span<void* const> outputs,
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

  // ---- back: results, in place in the image ----

  void receive_results(Step& step, const LaneStep& lane, Transport& transport) {
    for (const auto& source : lane.sends) {
      const ElementRange elements = space_.snapped(source.elements);
      if (elements.size() == 0) continue;
      step.receives.push_back({transport.receive(source.peer, result_of(elements)), source.peer});
      step.arriving.push_back(elements);
    }
  }

  void send_results(const Step& step, const LaneStep& lane, Transport& transport) {
    const ElementRange kept = space_.snapped(lane.kept);
    if (kept.size() == 0) return;
    for (const auto& target : lane.receives) send(step.chunk, target.peer, result_of(kept), transport);
  }

  void deliver(ElementRange elements) {
    for (const Piece& piece : space_.pieces(elements)) {
      const HostItem& item = items_[piece.item];
      for (void* const output : item.outputs) copy_result(piece, image_, output);
      if (!shares_node_) continue;
      for (std::byte* const output : node_->outputs(piece.item)) copy_result(piece, image_, output);
    }
  }
  void copy_result(const Piece& piece, const std::byte* image, void* output) const {
    const DType dtype = result_dtype(descriptor().op, items_[piece.item].dtype);
    std::memcpy(at(output, piece.begin, dtype), image + results_.offset(position_of(piece)),
                static_cast<std::size_t>(piece.end - piece.begin) * size_of(dtype));
  }

  // ---- memory ----

  [[nodiscard]] bool is_in_node(const Step& step) const { return shares_node_ && step.stage == 0; }
  [[nodiscard]] const StageFold& fold_of(const Step& step) const {
    return is_in_node(step) ? plan_->node_fold : stage_at(step.stage).fold;
  }
  [[nodiscard]] const RankSchedule::Stage& stage_at(int stage) const {
    return plan_->stages[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t position_of(const Piece& piece) const { return space_.start(piece.item) + piece.begin; }
  /// Single replicas travel in their own type.
  [[nodiscard]] const ElementImage& image_of(const Block& block) const { return is_leaf(block) ? leaves_ : partials_; }
  [[nodiscard]] std::size_t message_bytes(std::span<const Block> blocks, ElementRange elements) const {
    std::size_t bytes = 0;
    for (const Block& block : blocks) bytes += image_of(block).bytes(elements);
    return bytes;
  }
  [[nodiscard]] std::span<std::byte> result_of(ElementRange elements) const {
    return {image_ + results_.offset(elements.begin), results_.bytes(elements)};
  }
  [[nodiscard]] const Held& held_of(std::size_t chunk, ElementRange elements) const {
    for (const Held& held : chunks_[chunk].held) {
      if (held.elements.begin <= elements.begin && elements.end <= held.elements.end) return held;
    }
    LOCKSTEP_CHECK(false && "a stage needs elements that the one before did not keep");
    return chunks_[chunk].held.front();
  }
  /// Where `position` lies in the array of node `index` of `blocks`.
  [[nodiscard]] const std::byte* array_of(const Held& held, std::span<const Block> blocks, std::size_t index,
                                          std::int64_t position) const {
    const ElementImage& image = image_of(blocks[index]);
    return held.arrays[index] + image.offset(position) - image.offset(held.elements.begin);
  }
  [[nodiscard]] std::span<std::byte> new_buffer(std::size_t chunk, std::size_t bytes, Workspace& workspace) {
    auto& buffers = chunks_[chunk].buffers;
    buffers.push_back(workspace.take(bytes));
    return buffers.back().first(bytes);
  }
  void give_back(Chunk& chunk, Workspace& workspace) {
    for (auto& buffer : chunk.buffers) workspace.give_back(std::move(buffer));
    chunk.buffers.clear();
    chunk.held.clear();
  }
  void send(std::size_t chunk, int target, std::span<const std::byte> data, Transport& transport) {
    sends_.push_back({transport.send(target, data), chunk});
    ++chunks_[chunk].open_sends;
  }

  const std::shared_ptr<const RankSchedule> plan_;
  const MixedRadix& schedule_;
  int rank_;
  std::vector<HostItem> items_;
  const ElementSpace space_;
  const ElementImage leaves_;
  const ElementImage partials_;
  const ElementImage results_;
  int first_replica_;
  std::optional<NodeStage> node_;
  bool shares_node_ = false;    // in this operation
  bool has_taken_ = false;      // what others could not write
  std::byte* image_ = nullptr;  // of results, where some arrive from other ranks, or others take them from here
  Buffer image_buffer_;         // empty where the image is staging memory of the node
  std::vector<Chunk> chunks_;
  std::vector<Planned> order_;
  std::size_t next_ = 0;  // in order_
  std::vector<Step> under_way_;
  std::vector<Send> sends_;
  std::vector<FoldInput> inputs_;
};

}  // namespace

std::shared_ptr<Operation> make_mixed_radix_exchange(const Descriptor& descriptor,
                                                     std::shared_ptr<const RankSchedule> schedule, int rank,
                                                     std::vector<HostItem> items, NodeGroup* group) {
  return std::make_shared<MixedRadixExchange>(descriptor, std::move(schedule), rank, std::move(items), group);
}

}  // namespace lockstep::detail
