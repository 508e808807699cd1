// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Code that all kinds of distributed datasets share: a queue of steps, and the base classes of readers and pipelines.

#pragma once

#include "input/node.hpp"
#include "input/prefetch_queue.hpp"

#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/input/distributed_pipeline.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Used by detail::propagate: propagates the exception to the peers of `layout`, if there are any.
inline void propagate_current_exception(const InputLayout& layout, detail::FoundBy found_by) {
  if (layout.peers) detail::propagate_current_exception(*layout.peers, found_by);
}

}  // namespace lockstep

namespace lockstep::input {

/// The batches of one step, by local replica.
using StepBatches = std::vector<Leaves>;

/// Produces steps ahead on a background thread or, if the depth is 0, on the caller's thread in `pop`.
class StepQueue {
 public:
  using Produce = std::function<bool(StepBatches& step)>;
  StepQueue(int depth, Produce produce);

  /// Returns false at the end, and in every call after the end or after an exception.
  [[nodiscard]] bool pop(StepBatches& step);
  /// Time that callers have waited in `pop`.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept;

 private:
  Produce produce_;  // used only if there is no thread; empty after the end
  std::chrono::steady_clock::duration waited_{};
  std::optional<PrefetchQueue<StepBatches>> queue_;
};

class DistributedReader::Implementation {
 public:
  Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  bool next(StepBatches& batches);
  [[nodiscard]] ReadingPosition position() const noexcept { return position_; }
  [[nodiscard]] double wait_seconds() const noexcept { return std::chrono::duration<double>(waited()).count(); }
  /// Sets a counter to which waiting times are added.
  void count_at(std::shared_ptr<std::atomic<std::int64_t>> nanoseconds) noexcept {
    total_nanoseconds_ = std::move(nanoseconds);
  }
  /// Sets the position at which the reader was opened.
  void start_at(ReadingPosition position) noexcept { position_ = position; }

 protected:
  virtual bool do_next(StepBatches& batches) = 0;
  [[nodiscard]] virtual std::chrono::steady_clock::duration waited() const noexcept = 0;

 private:
  std::shared_ptr<std::atomic<std::int64_t>> total_nanoseconds_;
  std::chrono::steady_clock::duration counted_{};
  ReadingPosition position_;
};

/// Returns the text of DistributedDataset::describe().
using Describe = std::function<std::string()>;

class DistributedPipeline::Implementation {
 public:
  Implementation(int first_replica, int local_replicas, Describe describe)
      : first_replica_(first_replica), local_replicas_(local_replicas), describe_(std::move(describe)) {}
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  [[nodiscard]] DistributedReader open_next() { return open({passes_.fetch_add(1, std::memory_order_relaxed), 0}); }
  [[nodiscard]] DistributedReader open(ReadingPosition position) {
    std::unique_ptr<DistributedReader::Implementation> reader = do_open(position);
    reader->count_at(total_nanoseconds_);
    reader->start_at(position);
    return DistributedReader(std::move(reader));
  }
  [[nodiscard]] DistributedReader resume(ReadingPosition position) {
    passes_.store(position.pass + 1, std::memory_order_relaxed);
    return open(position);
  }
  [[nodiscard]] std::vector<std::vector<TensorSpec>> element_spec() const { return do_element_spec(); }
  [[nodiscard]] std::string describe() const { return describe_(); }
  [[nodiscard]] int first_replica() const noexcept { return first_replica_; }
  [[nodiscard]] int local_replicas() const noexcept { return local_replicas_; }
  [[nodiscard]] double wait_seconds() const noexcept {
    return 1e-9 * static_cast<double>(total_nanoseconds_->load(std::memory_order_relaxed));
  }

 protected:
  [[nodiscard]] virtual std::unique_ptr<DistributedReader::Implementation> do_open(ReadingPosition position) = 0;
  [[nodiscard]] virtual std::vector<std::vector<TensorSpec>> do_element_spec() const = 0;

 private:
  int first_replica_;
  int local_replicas_;
  Describe describe_;
  std::atomic<std::uint64_t> passes_ = 0;
  std::shared_ptr<std::atomic<std::int64_t>> total_nanoseconds_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

/// The chunks of a batch that this rank's replicas take: local replica i takes chunk `first + i * stride`.
struct ChunkPlan {
  SplitPolicy split = SplitPolicy::fixed_chunks;
  int first = 0;
  int stride = 1;
};

/// Distributes each batch of `node`: a replica gets the chunk that `plan` states. `node` must be the same dataset on
/// all ranks. If there is only one replica, elements need not be batches.
[[nodiscard]] DistributedPipeline distribute_chunks(std::shared_ptr<const Node> node, const ChunkPlan& plan,
                                                    const InputLayout& layout, const InputOptions& options,
                                                    Describe describe);
/// Distributes `nodes`, which belong to this rank. If there is one node, the local replicas take its elements in turn;
/// otherwise local replica i takes the elements of `nodes[i]`. If the layout has several ranks, it must have peers.
/// `global_batch` is the number of rows of a global batch, which must be equal on all ranks; 0 if there are none.
[[nodiscard]] DistributedPipeline distribute_streams(std::vector<std::shared_ptr<const Node>> nodes,
                                                     const ElementStructure& structure, const InputLayout& layout,
                                                     const InputOptions& options, std::int64_t global_batch,
                                                     Describe describe);

[[nodiscard]] std::string describe_dataset(const Node& dataset, const ReplicaLayout& layout, AutoShardPolicy policy,
                                           SplitPolicy split);
[[nodiscard]] std::string describe_function(const ReplicaLayout& layout, InputReplicationMode mode);

/// Throws Error(invalid_argument) for options that are out of range or incompatible. `call` is the prefix of the error
/// text.
void check_options(std::string_view call, const InputOptions& options);
/// Number of steps that a reader prepares ahead.
[[nodiscard]] int steps_ahead(const InputOptions& options) noexcept;
/// If `options` make the reader prepare steps ahead, `node` without the prefetch nodes at its end; otherwise `node`.
[[nodiscard]] std::shared_ptr<const Node> node_to_read(std::shared_ptr<const Node> node, const InputOptions& options);

/// The first element of pass 0. Throws Error(failed_precondition) if the dataset is empty.
[[nodiscard]] Leaves first_element(const Node& node);
/// Dtypes and full shapes of the tensors of `element`.
[[nodiscard]] std::vector<TensorSpec> specs_of(const Leaves& element);

}  // namespace lockstep::input
