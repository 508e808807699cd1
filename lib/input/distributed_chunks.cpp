// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every rank iterates over the same global batches and reads the rows of its replicas. The ranks do not communicate.

#include "input/device_fetch.hpp"
#include "input/distributed_implementation.hpp"
#include "input/split.hpp"

#include <utility>

namespace lockstep::input {
namespace {

class ChunkReader final : public DistributedReader::Implementation {
 public:
  ChunkReader(const Node& node, InputLayout layout, const ChunkPlan& plan, const InputOptions& options,
              ReadingPosition position)
      : layout_(std::move(layout)),
        plan_(plan),
        fetch_(layout_.devices),
        cursor_(node.open({position.pass, fetch_.host_memory()})),
        steps_to_skip_(position.step),
        queue_(steps_ahead(options), [this](StepBatches& step) { return produce(step); }) {}

 private:
  bool do_next(StepBatches& batches) override {
    return detail::propagate(layout_, [&] { return queue_.pop(batches); });
  }
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept override { return queue_.waited(); }

  bool produce(StepBatches& step) {
    for (; steps_to_skip_ > 0; --steps_to_skip_) {
      if (!cursor_->advance()) return false;
    }
    if (!cursor_->advance()) return false;
    step.resize(static_cast<std::size_t>(layout_.replicas.count(layout_.rank)));
    if (layout_.replicas.replicas() == 1) {  // the elements need not be batches
      cursor_->read(step.front());
    } else {
      read_chunks(step);
    }
    fetch_.fetch(step);
    return true;
  }
  void read_chunks(StepBatches& step) {
    const int replicas = layout_.replicas.replicas();
    const std::int64_t rows = rows_to_divide(*cursor_, replicas);
    int chunk = plan_.first;
    for (Leaves& batch : step) {
      const RowRange range = chunk_of(plan_.split, cursor_->full_rows(), rows, replicas, chunk);
      cursor_->read_rows(range.first, range.count, batch);
      chunk += plan_.stride;
    }
  }

  InputLayout layout_;
  ChunkPlan plan_;
  DeviceFetch fetch_;  // this and the next two members are used by the queue's thread only
  std::unique_ptr<Cursor> cursor_;
  std::uint64_t steps_to_skip_;  // number of batches before the first returned batch
  StepQueue queue_;
};

class ChunkPipeline final : public DistributedPipeline::Implementation {
 public:
  ChunkPipeline(std::shared_ptr<const Node> node, InputLayout layout, const ChunkPlan& plan,
                const InputOptions& options, Describe describe)
      : Implementation(layout.replicas.first(layout.rank), layout.replicas.count(layout.rank), std::move(describe)),
        node_(std::move(node)),
        layout_(std::move(layout)),
        plan_(plan),
        options_(options) {}

 private:
  [[nodiscard]] std::unique_ptr<DistributedReader::Implementation> do_open(ReadingPosition position) override {
    return detail::propagate(layout_,
                             [&] { return std::make_unique<ChunkReader>(*node_, layout_, plan_, options_, position); });
  }
  [[nodiscard]] std::vector<std::vector<TensorSpec>> do_element_spec() const override {
    const bool has_known_rows = node_->has_full_batches() && node_->keeps_rows();
    const std::int64_t full = has_known_rows ? node_->batch_size() : 0;
    const std::vector<TensorSpec> whole = specs_of(first_element(*node_));
    std::vector<std::vector<TensorSpec>> specs;
    for (int i = 0; i < local_replicas(); ++i) {
      specs.push_back(whole);
      if (node_->batched() == Batched::no) continue;
      const int chunk = plan_.first + i * plan_.stride;
      const std::int64_t rows = chunk_of(plan_.split, full, full, layout_.replicas.replicas(), chunk).count;
      for (TensorSpec& spec : specs.back()) {
        if (!spec.shape.empty()) spec.shape.front() = full != 0 ? std::optional(rows) : std::nullopt;
      }
    }
    return specs;
  }

  std::shared_ptr<const Node> node_;
  InputLayout layout_;
  ChunkPlan plan_;
  InputOptions options_;
};

}  // namespace

DistributedPipeline distribute_chunks(std::shared_ptr<const Node> node, const ChunkPlan& plan,
                                      const InputLayout& layout, const InputOptions& options, Describe describe) {
  return DistributedPipeline(
      std::make_shared<ChunkPipeline>(std::move(node), layout, plan, options, std::move(describe)));
}

}  // namespace lockstep::input
