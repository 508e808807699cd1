// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce, reduce and reduce_scatter inside a node, through shared memory.
//
// The elements of the list of tensors are cut into *slices*. Every rank is the owner of one slice. A slice is a list of
// ranges, each of one tensor. In a reduce_scatter, the slice of a rank consists of the parts of its replicas. The owner
// of a slice reads the slice from all inputs of the node, adds the inputs along the canonical tree in registers, and
// writes the result to all outputs. This takes one pass: every byte is read once and written once. (Movement-avoiding
// reduction, Peng et al., SC 2023.)
//
// If the inputs of each rank have at most `flat_bytes` bytes, every rank instead computes all results that it needs
// from the inputs in the payloads. If some memory must be staged, the list is processed in *rounds* that fit the
// staging memory, and each round has its own slices. If threads of this rank's other replicas wait for the result, they
// share the work on this rank's slice in *tasks*.

#include "base/processor.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/host/node_operation.hpp"
#include "kernels/reduce.hpp"
#include "schedule/canonical_tree.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

/// Bytes of input in one task of a parallel loop. A task of this size takes much longer than waking a thread, which
/// takes about a microsecond.
constexpr std::size_t task_bytes = std::size_t{256} << 10;
/// Number of tasks between two checks for an abandoned operation.
constexpr std::uint32_t tasks_of_turn = NodeWork::turn_bytes / task_bytes;

/// Every rank has one input per replica, and accesses the memory of every other rank.
NodeRoles roles_of(const ReplicaLayout& layout, int own) {
  NodeRoles roles;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    roles.inputs.push_back(layout.count(rank));
    if (rank != own) roles.producers.push_back(rank);
  }
  roles.consumers = roles.producers;
  return roles;
}

bool is_scatter(const Descriptor& descriptor) { return descriptor.traits().has_own_outputs(); }

std::vector<NodeRound> cut(const Descriptor& descriptor, const ReplicaLayout& layout, std::span<const HostItem> items,
                           std::size_t round_bytes) {
  return is_scatter(descriptor) ? cut_scatter_rounds(items, layout, round_bytes)
                                : cut_rounds(items, descriptor.op, layout.ranks(), round_bytes);
}

/// The buffers that other ranks may access. In a reduce_scatter these are the inputs only, because every rank writes
/// only its own outputs.
std::vector<HostItem> published(const Descriptor& descriptor, std::vector<HostItem> items) {
  return is_scatter(descriptor) ? without_outputs(std::move(items)) : items;
}

class NodeReduce final : public NodeOperation {
 public:
  NodeReduce(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
             const std::vector<HostItem>& items, const NodeTuning& tuning, std::shared_ptr<ParallelLoop> loop)
      : NodeOperation(
            descriptor, layout, group, items, published(descriptor, items),
            [this, bytes = tuning.round_bytes] {
              return cut(this->descriptor(), this->layout(), this->items(), bytes);
            },
            roles_of(layout, group.rank()), tuning),
        loop_(std::move(loop)),
        scatters_(is_scatter(descriptor)),
        merges_(fold_merges_of_leaves({0, layout.replicas()})) {
    inputs_.resize(static_cast<std::size_t>(layout.replicas()));
    for (const HostItem& item : items) functions_.push_back(reduce_function(descriptor.op, item.dtype));
    // non-temporal stores if the inputs and outputs of all ranks together exceed the last-level cache
    const std::size_t list_bytes = bytes_of_one_input(items);
    const auto replicas = static_cast<std::size_t>(layout.replicas());
    leaves_caches_ = list_bytes > last_level_cache_bytes() / (scatters_ ? replicas + 1 : 2 * replicas);
  }

 private:
  struct PreparedFold {
    ReduceFunction function;
    Fold fold;
    std::int64_t count;
  };

  /// Every rank computes all results that it needs.
  void do_flat() override {
    const auto& slices = rounds().front().slices;
    for (std::size_t owner = 0; owner < slices.size(); ++owner) {
      if (scatters_ && static_cast<int>(owner) != rank()) continue;
      for (const StagedRange& staged : slices[owner]) {
        collect_inputs([&](int rank, std::size_t i) { return payload_input(rank, staged, i); });
        outputs_.clear();
        add_own_outputs(staged.range);
        fold(staged.range);
      }
    }
  }

  void do_direct(bool has_changed) override {
    if (has_changed) prepare_direct();
    if (task_ends_.size() < 2) {
      for (const PreparedFold& each : direct_) {
        if (!goes_on(bytes_of(each.fold, each.count))) return;
        each.function(each.fold, each.count);
      }
      return;
    }
    std::atomic<bool> stops{false};
    loop_->run(static_cast<std::uint32_t>(task_ends_.size()), [&](std::uint32_t task) {
      if (task % tasks_of_turn == 0 && is_abandoned()) stops.store(true, std::memory_order_relaxed);
      if (stops.load(std::memory_order_relaxed)) return;
      for (std::size_t k = task == 0 ? 0 : task_ends_[task - 1]; k < task_ends_[task]; ++k)
        direct_[k].function(direct_[k].fold, direct_[k].count);
    });
  }

  void do_round() override {
    const bool are_results_wanted = !scatters_ && others_take_results();
    if (are_results_wanted) make_results();
    for (const StagedRange& staged : round().slices[static_cast<std::size_t>(rank())]) {
      collect_inputs([&](int rank, std::size_t i) { return input_of_round(rank, staged, i); });
      outputs_.clear();
      add_own_outputs(staged.range);
      for (const int other : roles().producers) add_visible_outputs(other, staged.range);
      if (are_results_wanted)
        outputs_.push_back(results_of_round(group().staging().results.data()) + staged.result_offset);
      if (!goes_on((inputs_.size() + outputs_.size()) * bytes_of(staged.range))) return;
      fold(staged.range);
    }
  }

  /// Copies the slices of the other owners in this round to the outputs of this rank that these owners could not write.
  void finish_round() override {
    if (scatters_ || own_table().is_visible()) return;
    for (const int owner : roles().producers) {
      const auto& slice = round().slices[static_cast<std::size_t>(owner)];
      if (slice.empty()) continue;
      const auto address =
          static_cast<NodeAddress>(group().control_block(owner).results.value.load(std::memory_order_relaxed));
      copy_out(slice, results_of_round(group().resolve(owner, address, 2 * most_result_bytes())));
    }
  }

  int private_owner() const noexcept override { return rank(); }

  /// Sets `inputs_` to the result of `find(rank, input)` for each replica of each rank.
  template <class Find>
  void collect_inputs(const Find& find) {
    std::size_t next = 0;
    for (int rank = 0; rank < layout().ranks(); ++rank) {
      for (int i = 0; i < layout().count(rank); ++i) inputs_[next++].data = find(rank, static_cast<std::size_t>(i));
    }
  }

  void add_own_outputs(const TensorRange& range) {
    const HostItem& item = items()[range.item];
    const DType dtype = dtype_of_result(range);
    if (scatters_) {
      const std::int64_t part = item.count() / layout().replicas();
      const auto replica = static_cast<std::size_t>(range.begin / part - layout().first(rank()));
      outputs_.push_back(at(static_cast<std::byte*>(item.outputs[replica]), range.begin % part, dtype));
      return;
    }
    for (void* const output : item.outputs) outputs_.push_back(at(static_cast<std::byte*>(output), range.begin, dtype));
  }

  void add_visible_outputs(int rank, const TensorRange& range) {
    const DType dtype = dtype_of_result(range);
    for (std::byte* const output : table_of(rank).outputs(range.item)) {
      if (output != nullptr) outputs_.push_back(at(output, range.begin, dtype));
    }
  }

  [[nodiscard]] DType dtype_of_result(const TensorRange& range) const {
    return result_dtype(descriptor().op, items()[range.item].dtype);
  }

  [[nodiscard]] std::size_t bytes_of(const TensorRange& range) const {
    return static_cast<std::size_t>(range.end - range.begin) * size_of(items()[range.item].dtype);
  }
  [[nodiscard]] static std::size_t bytes_of(const Fold& fold, std::int64_t count) {
    return (fold.inputs.size() + fold.outputs.size()) * static_cast<std::size_t>(count) * size_of(fold.dtype);
  }

  void fold(const TensorRange& range) {
    if (outputs_.empty()) return;
    functions_[range.item](fold_of(range, inputs_, outputs_), range.end - range.begin);
  }

  [[nodiscard]] Fold fold_of(const TensorRange& range, std::span<const FoldInput> inputs,
                             std::span<void* const> outputs) const {
    return {.op = descriptor().op,
            .dtype = items()[range.item].dtype,
            .inputs = inputs,
            .merges = merges_,
            .outputs = outputs,
            .result = FoldResult::finished,
            .replicas = layout().replicas()};
  }

  /// Whether no output is also an input. An output that is also an input is in the cache already, so non-temporal
  /// stores would cost more.
  [[nodiscard]] static bool is_out_of_place(std::span<const FoldInput> inputs, std::span<void* const> outputs) {
    return std::none_of(outputs.begin(), outputs.end(), [&](const void* output) {
      return std::any_of(inputs.begin(), inputs.end(), [&](const FoldInput& input) { return input.data == output; });
    });
  }

  /// Prepares the folds of this rank's slice, so that a repeated call only runs the folds.
  void prepare_direct() {
    const auto rounds = cut(descriptor(), layout(), items(), unlimited_round_bytes);
    const auto slice = split(rounds.front().slices[static_cast<std::size_t>(rank())]);
    const std::size_t replicas = inputs_.size();
    direct_.clear();
    direct_inputs_.clear();
    direct_outputs_.clear();
    std::vector<std::size_t> ends;
    for (const StagedRange& staged : slice) {
      collect_inputs([&](int rank, std::size_t i) { return visible_input(rank, staged.range, i); });
      direct_inputs_.insert(direct_inputs_.end(), inputs_.begin(), inputs_.end());
      outputs_.clear();
      add_own_outputs(staged.range);
      for (const int other : roles().producers) add_visible_outputs(other, staged.range);
      direct_outputs_.insert(direct_outputs_.end(), outputs_.begin(), outputs_.end());
      ends.push_back(direct_outputs_.size());
    }
    std::size_t begin = 0;
    for (std::size_t k = 0; k < slice.size(); ++k) {
      const auto outputs = std::span(direct_outputs_).subspan(begin, ends[k] - begin);
      begin = ends[k];
      if (outputs.empty()) continue;
      const auto inputs = std::span(direct_inputs_).subspan(k * replicas, replicas);
      const TensorRange& range = slice[k].range;
      direct_.push_back({functions_[range.item], fold_of(range, inputs, outputs), range.end - range.begin});
      direct_.back().fold.stream = leaves_caches_ && is_out_of_place(inputs, outputs);
    }
    cut_tasks();
  }

  /// The number of elements of `item` whose inputs on all replicas have about `bytes` bytes in total; a multiple of 64.
  [[nodiscard]] std::int64_t elements_of(std::size_t bytes, std::size_t item) const {
    return static_cast<std::int64_t>(bytes / (size_of(items()[item].dtype) * inputs_.size())) / 64 * 64 + 64;
  }

  /// Cuts the ranges of `slice` into ranges that read and write at most about NodeWork::turn_bytes bytes, so that this
  /// rank can check between two ranges for an abandoned operation. If other threads share the work, cuts the ranges of
  /// `slice` into ranges of at most about one task.
  [[nodiscard]] std::vector<StagedRange> split(const std::vector<StagedRange>& slice) const {
    std::vector<StagedRange> result;
    for (const StagedRange& staged : slice) {
      const std::int64_t most = elements_of(loop_ ? task_bytes : NodeWork::turn_bytes / 2, staged.range.item);
      for (std::int64_t begin = staged.range.begin; begin < staged.range.end; begin += most)
        result.push_back({{staged.range.item, begin, std::min(begin + most, staged.range.end)}, 0, 0});
    }
    return result;
  }

  /// Groups consecutive folds into tasks of at least `task_bytes` bytes, so that a list of small tensors gives few
  /// tasks.
  void cut_tasks() {
    task_ends_.clear();
    if (!loop_) return;
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < direct_.size(); ++k) {
      bytes += static_cast<std::size_t>(direct_[k].count) * size_of(direct_[k].fold.dtype) * inputs_.size();
      if (bytes < task_bytes && k + 1 < direct_.size()) continue;
      task_ends_.push_back(k + 1);
      bytes = 0;
    }
  }

  [[nodiscard]] bool others_take_results() const {
    return std::any_of(roles().producers.begin(), roles().producers.end(), [&](int rank) { return is_staged(rank); });
  }

  [[nodiscard]] std::byte* results_of_round(std::byte* results) const {
    return results + (round_index() % 2) * most_result_bytes();
  }

  void make_results() {
    group().reserve_results(2 * most_result_bytes());
    const NodeMemory& results = group().staging().results;
    // stored before NodeOperation calls NodeWork::tick for this round, which publishes the address
    group().own_control_block().results.value.store(
        static_cast<std::uint64_t>(group().address_of(results.data(), 2 * most_result_bytes())),
        std::memory_order_relaxed);
  }

  void copy_out(std::span<const StagedRange> slice, const std::byte* results) {
    for (const StagedRange& staged : slice) {
      const TensorRange& range = staged.range;
      const HostItem& item = items()[range.item];
      const DType dtype = dtype_of_result(range);
      for (std::size_t i = 0; i < item.outputs.size(); ++i) {
        if (own_table().output(range.item, i) != NodeAddress::none) continue;
        std::memcpy(at(static_cast<std::byte*>(item.outputs[i]), range.begin, dtype), results + staged.result_offset,
                    static_cast<std::size_t>(range.end - range.begin) * size_of(dtype));
      }
    }
  }

  const std::shared_ptr<ParallelLoop> loop_;  ///< null if no other thread shares this rank's work
  const bool scatters_;
  const std::vector<std::uint8_t> merges_;
  std::vector<ReduceFunction> functions_;  // by item
  bool leaves_caches_ = false;             ///< whether the buffers of all ranks exceed the last-level cache

  // kept between runs
  std::vector<PreparedFold> direct_;
  std::vector<std::size_t> task_ends_;  // index in direct_ of the end of each task; empty if there is no loop
  std::vector<FoldInput> direct_inputs_;
  std::vector<void*> direct_outputs_;
  std::vector<FoldInput> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace

std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                                            const std::vector<HostItem>& items, const NodeTuning& tuning,
                                            std::shared_ptr<ParallelLoop> loop) {
  return std::make_shared<NodeReduce>(descriptor, layout, group, items, tuning, std::move(loop));
}

}  // namespace lockstep::detail
