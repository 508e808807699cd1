// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every rank reads either one stream, whose elements its replicas take in turn, or one stream for each of its replicas.
// Streams may end at different steps. The ranks agree on the last step, and a replica whose stream has ended gets
// batches without rows.

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/device_fetch.hpp"
#include "input/distributed_implementation.hpp"
#include "input/step_peers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t not_known = -1;

std::int64_t steps_in(Cardinality elements, std::int64_t elements_per_step, std::uint64_t first_step) {
  if (elements.is_infinite()) return endless;
  if (elements.is_unknown()) return not_known;
  const std::int64_t steps = elements.count() / elements_per_step + (elements.count() % elements_per_step != 0 ? 1 : 0);
  return steps - static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(steps), first_step));
}

struct Stream {
  std::unique_ptr<Cursor> cursor;
  bool ended = false;
};

class StreamReader final : public DistributedReader::Implementation {
 public:
  /// Collective. `elements[i]` is the length of stream i. The streams allocate from `fetch->host_memory()`. Throws
  /// Error(mismatch) on all ranks if `global_batch` differs between ranks.
  StreamReader(std::vector<Stream> streams, std::unique_ptr<DeviceFetch> fetch,
               const std::vector<Cardinality>& elements, const ElementStructure& structure, const InputLayout& layout,
               const InputOptions& options, std::int64_t global_batch, std::uint64_t first_step)
      : peers_(layout),
        local_replicas_(peers_.local_replicas()),
        devices_(layout.devices),
        spec_(structure),
        fetch_(std::move(fetch)),
        streams_(std::move(streams)),
        steps_to_skip_(first_step),
        queue_(steps_ahead(options), [this](StepBatches& step) { return produce(step); }) {
    agree_on_steps(elements, global_batch, first_step);
  }

 private:
  [[nodiscard]] std::size_t stream_of(std::size_t local) const noexcept { return streams_.size() == 1 ? 0 : local; }

  /// If every rank knows its number of elements, determines the number of steps. If there is at least one step, but a
  /// replica has no data, the ElementSpec is broadcast from a rank that has data.
  void agree_on_steps(const std::vector<Cardinality>& elements, std::int64_t global_batch, std::uint64_t first_step) {
    const auto elements_per_step = static_cast<std::int64_t>(local_replicas_ / streams_.size());
    std::vector<std::int64_t> mine;
    for (std::size_t i = 0; i < local_replicas_; ++i) {
      mine.push_back(steps_in(elements[stream_of(i)], elements_per_step, first_step));
      mine.push_back(global_batch);
    }
    const std::vector<std::int64_t> all = peers_.gather(std::move(mine), 2);
    std::vector<std::int64_t> steps;
    for (std::size_t replica = 0; replica < all.size() / 2; ++replica) {
      const std::int64_t batch = all[2 * replica + 1];
      if (batch != all[1]) {
        detail::throw_error(
            Code::mismatch,
            "experimental_distribute_dataset: the global batch size of the dataset is {} on rank {}, but "
            "{} on rank {}; all ranks must distribute the same dataset",
            all[1], peers_.rank_of(0), batch, peers_.rank_of(replica));
      }
      steps.push_back(all[2 * replica]);
    }
    if (std::find(steps.begin(), steps.end(), not_known) != steps.end()) return;
    steps_left_ = *std::max_element(steps.begin(), steps.end());
    if (steps_left_ > 0 && std::find(steps.begin(), steps.end(), 0) != steps.end()) {
      const auto first = std::find_if(steps.begin(), steps.end(), [](std::int64_t count) { return count > 0; });
      const int root = peers_.rank_of(static_cast<std::size_t>(first - steps.begin()));
      if (peers_.rank() == root) read_ahead();
      spec_.broadcast(peers_, root);
    }
  }

  bool do_next(StepBatches& batches) override {
    if (over_ || steps_left_ == 0) return false;
    read_ahead();
    if (steps_left_ == not_known) {
      if (!agree_on_step()) return !(over_ = true);
    } else if (steps_left_ != endless) {
      --steps_left_;
    }
    batches = std::move(step_);
    step_.clear();
    have_read_ = false;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      if (batches[i].empty()) batches[i] = batch_without_rows(i);
    }
    return true;
  }
  [[nodiscard]] Leaves batch_without_rows(std::size_t local) {
    Leaves batch = spec_.empty_element();
    if (local >= devices_.size() || devices_[local].kind == DeviceKind::cpu) return batch;
    for (Tensor& leaf : batch) leaf = leaf.to(devices_[local]);
    return batch;
  }
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept override { return queue_.waited(); }

  /// Stores this rank's next step in `step_`. A replica without data has an empty list of tensors.
  void read_ahead() {
    if (have_read_) return;
    over_ = true;  // remains true if reading throws
    detail::propagate(peers_.layout(), [&] {
      if (!queue_.pop(step_)) step_.assign(local_replicas_, Leaves());
    });
    over_ = false;
    have_read_ = true;
    const auto some = std::find_if(step_.begin(), step_.end(), [](const Leaves& batch) { return !batch.empty(); });
    if (some != step_.end()) spec_.learn(*some);
  }

  /// Returns whether a replica of any rank has data. Ranks that have not read any element receive the spec.
  bool agree_on_step() {
    constexpr std::uint8_t has_data = 1;
    constexpr std::uint8_t knows_spec = 2;
    std::vector<std::uint8_t> mine(local_replicas_, spec_.is_known() ? knows_spec : std::uint8_t{0});
    for (std::size_t i = 0; i < step_.size(); ++i) mine[i] |= step_[i].empty() ? std::uint8_t{0} : has_data;
    const std::vector<std::uint8_t> all = peers_.gather(std::move(mine));
    if (std::none_of(all.begin(), all.end(), [](std::uint8_t flags) { return (flags & has_data) != 0; })) return false;
    const auto knows = [](std::uint8_t flags) { return (flags & knows_spec) != 0; };
    if (!std::all_of(all.begin(), all.end(), knows)) {
      const auto first = std::find_if(all.begin(), all.end(), knows);
      spec_.broadcast(peers_, peers_.rank_of(static_cast<std::size_t>(first - all.begin())));
    }
    return true;
  }

  bool produce(StepBatches& step) {
    for (; steps_to_skip_ > 0; --steps_to_skip_) {
      for (std::size_t i = 0; i < local_replicas_; ++i) {
        if (!advance(streams_[stream_of(i)]) && streams_.size() == 1) return false;
      }
    }
    step.assign(local_replicas_, Leaves());
    bool any = false;
    for (std::size_t i = 0; i < local_replicas_; ++i) {
      Stream& stream = streams_[stream_of(i)];
      if (!advance(stream)) continue;
      stream.cursor->read(step[i]);
      any = true;
    }
    fetch_->fetch(step);
    return any;
  }
  static bool advance(Stream& stream) {
    if (!stream.ended) stream.ended = !stream.cursor->advance();
    return !stream.ended;
  }

  StepPeers peers_;
  std::size_t local_replicas_;
  std::vector<Device> devices_;  // device of each replica's batches; may be empty
  ElementSpec spec_;
  std::int64_t steps_left_ = not_known;
  StepBatches step_;        // the step that has been read, but not returned yet
  bool have_read_ = false;  // whether `step_` has been read
  bool over_ = false;
  std::unique_ptr<DeviceFetch> fetch_;  // this and the next two members are used by the queue's thread only
  std::vector<Stream> streams_;
  std::uint64_t steps_to_skip_;  // number of steps before the first returned step
  StepQueue queue_;
};

class StreamPipeline final : public DistributedPipeline::Implementation {
 public:
  StreamPipeline(std::vector<std::shared_ptr<const Node>> nodes, ElementStructure structure, InputLayout layout,
                 const InputOptions& options, std::int64_t global_batch, Describe describe)
      : Implementation(layout.replicas.first(layout.rank), layout.replicas.count(layout.rank), std::move(describe)),
        nodes_(std::move(nodes)),
        structure_(std::move(structure)),
        layout_(std::move(layout)),
        options_(options),
        global_batch_(global_batch) {}

 private:
  [[nodiscard]] std::unique_ptr<DistributedReader::Implementation> do_open(ReadingPosition position) override {
    std::vector<Stream> streams;
    std::vector<Cardinality> elements;
    std::unique_ptr<DeviceFetch> fetch;
    detail::propagate(layout_, [&] {
      fetch = std::make_unique<DeviceFetch>(layout_.devices);
      for (const auto& node : nodes_) {
        streams.push_back({node->open({position.pass, fetch->host_memory()})});
        elements.push_back(node->cardinality());
      }
    });
    return std::make_unique<StreamReader>(std::move(streams), std::move(fetch), elements, structure_, layout_, options_,
                                          global_batch_, position.step);
  }
  /// The number of rows is unknown, because batches at the end may be empty.
  [[nodiscard]] std::vector<std::vector<TensorSpec>> do_element_spec() const override {
    std::vector<std::vector<TensorSpec>> specs;
    for (int i = 0; i < local_replicas(); ++i) {
      const Node& node = *nodes_[nodes_.size() == 1 ? 0 : static_cast<std::size_t>(i)];
      specs.push_back(specs_of(first_element(node)));
      for (TensorSpec& spec : specs.back()) {
        if (!spec.shape.empty()) spec.shape.front().reset();
      }
    }
    return specs;
  }

  std::vector<std::shared_ptr<const Node>> nodes_;
  ElementStructure structure_;
  InputLayout layout_;
  InputOptions options_;
  std::int64_t global_batch_;
};

}  // namespace

DistributedPipeline distribute_streams(std::vector<std::shared_ptr<const Node>> nodes,
                                       const ElementStructure& structure, const InputLayout& layout,
                                       const InputOptions& options, std::int64_t global_batch, Describe describe) {
  return DistributedPipeline(std::make_shared<StreamPipeline>(std::move(nodes), structure, layout, options,
                                                              global_batch, std::move(describe)));
}

DistributedPipeline distribute_local_pipelines(const std::vector<Pipeline>& local, const ElementStructure& structure,
                                               const Communicator& communicator, const InputOptions& options,
                                               const std::vector<Device>& devices) {
  check_options("distribute_datasets_from_function", options);
  const bool per_replica = local.size() != 1;
  if (per_replica && static_cast<int>(local.size()) != communicator.local_replicas()) {
    detail::throw_error(Code::invalid_argument,
                        "distribute_datasets_from_function: {}, but this rank has {}; there must be one dataset, "
                        "or one for each replica",
                        detail::counted(local.size(), "dataset"),
                        detail::counted(communicator.local_replicas(), "replica"));
  }
  std::vector<std::shared_ptr<const Node>> nodes;
  for (const Pipeline& pipeline : local) nodes.push_back(node_to_read(pipeline.node(), options));
  const InputLayout layout{communicator.layout(), communicator.rank(), communicator, devices};
  return distribute_streams(std::move(nodes), structure, layout, options, 0, [replicas = layout.replicas, options] {
    return describe_function(replicas, options.experimental_replication_mode);
  });
}

}  // namespace lockstep::input
