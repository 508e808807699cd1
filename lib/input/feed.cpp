// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/feed.hpp>

#include "base/check.hpp"
#include "input/feed_implementation.hpp"
#include "input/recycling_memory.hpp"

#include <lockstep/context/context.hpp>

#include <algorithm>
#include <utility>

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
  Produce produce = std::exchange(produce_, nullptr);  // stays away if it throws
  const bool more = produce && produce(step);
  if (more) produce_ = std::move(produce);
  waited_ += std::chrono::steady_clock::now() - start;
  return more;
}

std::chrono::steady_clock::duration StepQueue::waited() const noexcept { return queue_ ? queue_->waited() : waited_; }

bool Feed::Implementation::next(StepBatches& batches) {
  if (has_strategy() && !in_cross_replica_context()) {
    detail::throw_error(Code::invalid_argument,
                        "get_next: called inside a replica's function; take the batches outside and give them to run");
  }
  const bool more = do_next(batches);
  if (more) ++position_.step;
  const auto now = waited();
  if (total_nanoseconds_ && now != counted_) {
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now - std::exchange(counted_, now));
    total_nanoseconds_->fetch_add(nanoseconds.count(), std::memory_order_relaxed);
  }
  return more;
}

Feed::Feed(std::unique_ptr<Implementation> implementation) noexcept : implementation_(std::move(implementation)) {}
Feed::Feed(Feed&&) noexcept = default;
Feed& Feed::operator=(Feed&&) noexcept = default;
Feed::~Feed() = default;

bool Feed::next(std::vector<Leaves>& batches) { return implementation_->next(batches); }
ReadingPosition Feed::position() const noexcept { return implementation_->position(); }
double Feed::wait_seconds() const noexcept { return implementation_->wait_seconds(); }

FeedSource::FeedSource(std::shared_ptr<Implementation> implementation) noexcept
    : implementation_(std::move(implementation)) {}

Feed FeedSource::open() const { return implementation_->open_next(); }
Feed FeedSource::open(std::uint64_t pass) const { return implementation_->open({pass, 0}); }
Feed FeedSource::resume(ReadingPosition position) const { return implementation_->resume(position); }
std::vector<std::vector<TensorSpec>> FeedSource::element_spec() const { return implementation_->element_spec(); }
std::string FeedSource::describe() const { return implementation_->describe(); }
int FeedSource::first_replica() const noexcept { return implementation_->first_replica(); }
int FeedSource::local_replicas() const noexcept { return implementation_->local_replicas(); }
double FeedSource::wait_seconds() const noexcept { return implementation_->wait_seconds(); }

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
                        "{}: with experimental_place_dataset_on_device each replica has a dataset of its own, but "
                        "experimental_replication_mode is PER_WORKER; set it to PER_REPLICA",
                        call);
  }
  if (options.experimental_place_dataset_on_device && options.experimental_fetch_to_device) {
    detail::throw_error(Code::invalid_argument,
                        "{}: under PER_REPLICA, experimental_place_dataset_on_device and experimental_fetch_to_device "
                        "are both set, but a dataset on the device has nothing to be fetched; unset one",
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
                        "element_spec: the dataset has no element, and what one would look like is seen by reading it");
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
