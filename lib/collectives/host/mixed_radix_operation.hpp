// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The operation behind mixed_radix_exchange: in which order its steps run, and what each of them moves and adds.

#pragma once

#include "base/check.hpp"
#include "collectives/call/element_space.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/node_stage.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "kernels/reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Whether it is one replica's own value.
[[nodiscard]] inline bool is_leaf(const Block& block) noexcept { return block.last - block.first == 1; }

class MixedRadixExchange final : public Operation {
 public:
  MixedRadixExchange(const Descriptor& descriptor, std::shared_ptr<const RankSchedule> plan, int rank,
                     std::vector<HostItem> items, NodeGroup* group);

  void arrive(std::uint64_t tag, Arrival& arrival) override;
  void start(Transport& transport, Workspace& workspace) override;
  bool advance(Transport& transport, Workspace& workspace) override;
  std::vector<int> awaited_ranks() const override;
  bool abandon(Transport& transport) noexcept override;

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

  // the order of steps
  void line_up_steps();
  /// Whether one was posted. Every rank posts in the same order; a step waits for its chunk's step before it.
  bool post_ready_steps(Transport& transport, Workspace& workspace);
  /// The first stage in memory: this rank's lanes of the node's inputs. False when somebody has given up.
  bool fold_node(const Planned& planned, Workspace& workspace);
  void post(const Planned& planned, Transport& transport, Workspace& workspace);
  /// False when it writes to others of the node, and somebody there has given up.
  bool complete(const Step& step, Workspace& workspace);
  void complete_forth(const Step& step, Workspace& workspace);
  void count_done(const Step& step);

  // inside the node
  void make_node(NodeGroup& group);
  /// Whether everybody of the node has read and written all, and this rank has taken what others could not give it.
  bool has_left_node();
  [[nodiscard]] std::size_t stage_bounds() const;
  /// Copies the lanes of `member` of some elements to this rank's outputs that it could not see.
  void take_results(int member, ElementRange elements);

  // forth: partial results
  void receive_partials(Step& step, const StageStep& what, const SliceStep& lane, Transport& transport,
                        Workspace& workspace);
  void send_partials(const Step& step, const SliceStep& lane, Transport& transport, Workspace& workspace);
  [[nodiscard]] std::span<const std::byte> outgoing(const Step& step, ElementRange elements, Workspace& workspace);
  /// The nodes of the tree that this rank's own replicas make. Copied even where they are single replicas: outputs may
  /// be written while it travels.
  void pack_leaves(const RankSchedule::Stage& stage, ElementRange elements, std::byte* next);
  /// Adds what all parts know of a lane. The last stage's are the results.
  [[nodiscard]] Held fold(const Step& step, const Lane& lane, Workspace& workspace);
  /// In id order: what the other parts have sent, and what this rank has held.
  void collect_inputs(const Step& step, const Lane& lane, const TensorRange& piece);
  void finish(std::span<const std::uint8_t> merges, const TensorRange& piece);
  void add(const HostItem& item, std::span<const std::uint8_t> merges, std::span<void* const> outputs,
           FoldResult result, std::int64_t count);

  // back: results, in place in the image
  void receive_results(Step& step, const SliceStep& lane, Transport& transport);
  void send_results(const Step& step, const SliceStep& lane, Transport& transport);
  void deliver(ElementRange elements);
  void copy_result(const TensorRange& piece, const std::byte* image, void* output) const;

  // memory
  [[nodiscard]] bool is_in_node(const Step& step) const { return shares_node_ && step.stage == 0; }
  [[nodiscard]] const StageFold& fold_of(const Step& step) const {
    return is_in_node(step) ? plan_->node_fold : stage_at(step.stage).fold;
  }
  [[nodiscard]] const RankSchedule::Stage& stage_at(int stage) const {
    return plan_->stages[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t position_of(const TensorRange& piece) const {
    return space_.start(piece.item) + piece.begin;
  }
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

}  // namespace lockstep::detail
