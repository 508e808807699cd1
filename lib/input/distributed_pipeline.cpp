// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/distributed_pipeline.hpp>

#include "base/check.hpp"
#include "input/distributed_implementation.hpp"

#include <lockstep/cluster/trace.hpp>
#include <lockstep/context/context.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

std::string to_string(const TensorSpec& spec) {
  std::string extents;
  for (const std::optional<std::int64_t>& extent : spec.shape) {
    if (!extents.empty()) extents += ", ";
    extents += extent ? std::to_string(*extent) : "?";
  }
  return fmt::format("{}[{}]", to_string(spec.dtype), extents);
}

}  // namespace lockstep

namespace lockstep::input {

StepQueue::StepQueue(int depth, Produce produce) {
  if (depth == 0) {
    produce_ = std::move(produce);
  } else {
    queue_.emplace(static_cast<std::size_t>(depth), std::move(produce));
  }
}

bool StepQueue::pop(StepBatches& step) {
  if (queue_) return queue_->pop(step);
  const auto start = std::chrono::steady_clock::now();
  Produce produce = std::exchange(produce_, nullptr);  // `produce_` stays empty if the call throws
  const bool more = produce && produce(step);
  if (more) produce_ = std::move(produce);
  waited_ += std::chrono::steady_clock::now() - start;
  return more;
}

std::chrono::steady_clock::duration StepQueue::waited() const noexcept { return queue_ ? queue_->waited() : waited_; }

bool DistributedReader::Implementation::next(StepBatches& batches) {
  if (has_strategy() && !in_cross_replica_context()) {
    detail::throw_error(
        Code::invalid_argument,
        "get_next, get_next_as_optional: called in replica context; call it outside of the step function, and pass the "
        "batches to run");
  }
  const TraceRange range("get_next");
  const bool more = do_next(batches);
  if (more) ++position_.step;
  const auto now = waited();
  if (total_nanoseconds_ && now != counted_) {
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now - std::exchange(counted_, now));
    total_nanoseconds_->fetch_add(nanoseconds.count(), std::memory_order_relaxed);
  }
  return more;
}

DistributedReader::DistributedReader(Owned<Implementation> implementation) noexcept
    : implementation_(std::move(implementation)) {}
DistributedReader::DistributedReader(DistributedReader&&) noexcept = default;
DistributedReader& DistributedReader::operator=(DistributedReader&&) noexcept = default;
DistributedReader::~DistributedReader() = default;

bool DistributedReader::next(std::vector<Leaves>& batches) { return implementation_->next(batches); }
ReadingPosition DistributedReader::position() const noexcept { return implementation_->position(); }
double DistributedReader::wait_seconds() const noexcept { return implementation_->wait_seconds(); }

DistributedPipeline::DistributedPipeline(std::shared_ptr<Implementation> implementation) noexcept
    : implementation_(std::move(implementation)) {}

DistributedReader DistributedPipeline::open() const { return implementation_->open_next(); }
DistributedReader DistributedPipeline::open(std::uint64_t pass) const { return implementation_->open({pass, 0}); }
DistributedReader DistributedPipeline::resume(ReadingPosition position) const {
  return implementation_->resume(position);
}
std::vector<std::vector<TensorSpec>> DistributedPipeline::element_spec() const {
  return implementation_->element_spec();
}
std::string DistributedPipeline::describe() const { return implementation_->describe(); }
int DistributedPipeline::first_replica() const noexcept { return implementation_->first_replica(); }
int DistributedPipeline::local_replicas() const noexcept { return implementation_->local_replicas(); }
double DistributedPipeline::wait_seconds() const noexcept { return implementation_->wait_seconds(); }

void check_options(std::string_view call, const InputOptions& options) {
  const bool per_replica = options.experimental_replication_mode == InputReplicationMode::per_replica;
  if (options.prefetch_batches < 0) {
    detail::throw_error(Code::invalid_argument, "{}: prefetch_batches is {}; it must be at least 0", call,
                        options.prefetch_batches);
  }
  if (options.experimental_per_replica_buffer_size < 0) {
    detail::throw_error(Code::invalid_argument, "{}: experimental_per_replica_buffer_size is {}; it must be at least 0",
                        call, options.experimental_per_replica_buffer_size);
  }
  if (options.experimental_place_dataset_on_device && !per_replica) {
    detail::throw_error(Code::invalid_argument,
                        "{}: experimental_place_dataset_on_device requires experimental_replication_mode PER_REPLICA, "
                        "but it is PER_WORKER",
                        call);
  }
  if (options.experimental_place_dataset_on_device && options.experimental_fetch_to_device) {
    detail::throw_error(Code::invalid_argument,
                        "{}: experimental_place_dataset_on_device and experimental_fetch_to_device are both set; a "
                        "dataset on the device needs no fetching, so unset one of them",
                        call);
  }
}

void check_function_options(const InputOptions& options) {
  check_options("distribute_datasets_from_function", options);
}

int steps_ahead(const InputOptions& options) noexcept {
  if (options.prefetch_batches == 0) return 0;
  return std::max(options.prefetch_batches, options.experimental_per_replica_buffer_size);
}

Leaves first_element(const Node& node) {
  const std::unique_ptr<Cursor> cursor = node.open({0, recycling_memory()});
  if (!cursor->advance()) {
    detail::throw_error(Code::failed_precondition,
                        "element_spec: the dataset is empty, so the dtypes and shapes of its elements are unknown");
  }
  Leaves element;
  cursor->read(element);
  return element;
}

std::vector<TensorSpec> specs_of(const Leaves& element) {
  std::vector<TensorSpec> specs;
  for (const Tensor& leaf : element) {
    const auto extents = leaf.shape().extents();
    specs.push_back({leaf.dtype(), {extents.begin(), extents.end()}});
  }
  return specs;
}

std::shared_ptr<const Node> node_to_read(std::shared_ptr<const Node> node, const InputOptions& options) {
  while (options.prefetch_batches > 0 && node->reads_ahead_of()) node = node->reads_ahead_of();
  return node;
}

}  // namespace lockstep::input
