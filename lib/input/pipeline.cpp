// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/pipeline.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/node.hpp"
#include "input/row_source.hpp"
#include "input/rows.hpp"
#include "input/stream_nodes.hpp"

#include <atomic>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();

void require_at_least(std::int64_t least, std::int64_t value, const char* call, const char* name) {
  if (value < least) {
    detail::throw_error(Code::invalid_argument, "{}: {} is {}; it must be at least {}", call, name, value, least);
  }
}

NodePointer sliced_node(const NodePointer& node, std::int64_t skip, std::int64_t take) {
  if (const IndexedRows* const rows = node->indexed())
    return indexed_node({rows->source, sliced_order(rows->order, skip, take)});
  return slice_node(node, skip, take);
}

}  // namespace

PassCounter::PassCounter() : count_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

std::uint64_t PassCounter::next() const noexcept {
  return static_cast<std::atomic<std::uint64_t>*>(count_.get())->fetch_add(1, std::memory_order_relaxed);
}

Reader::Reader(Owned<Cursor> cursor) noexcept : cursor_(std::move(cursor)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

bool Reader::next(Leaves& element) {
  if (!cursor_) return false;
  Owned<Cursor> cursor = std::move(cursor_);  // destroyed at the end of the pass, or if reading throws
  if (!cursor->advance()) return false;
  cursor->read(element);
  cursor_ = std::move(cursor);
  return true;
}

Pipeline Pipeline::from_tensor_slices(Leaves tensors) {
  std::shared_ptr<const RowSource> source = slices_source(std::move(tensors));
  std::shared_ptr<const RowOrder> order = sequential_order(source->count());
  return Pipeline(indexed_node({std::move(source), std::move(order)}));
}

Pipeline Pipeline::from_generator(MakeGenerator make) { return Pipeline(generator_node(std::move(make))); }

Pipeline Pipeline::from_tensors(const Leaves& tensors) {
  Leaves rows;
  for (const Tensor& tensor : tensors) rows.push_back(tensor.reshaped(with_rows(1, tensor.shape())));
  return from_tensor_slices(std::move(rows));
}

Pipeline Pipeline::range(std::int64_t count) {
  require_at_least(0, count, "range", "count");
  return range(0, count, 1);
}

Pipeline Pipeline::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step == 0) {
    detail::throw_error(Code::invalid_argument, "range: step is 0 in the range from {} to {}; it must not be 0", start,
                        stop);
  }
  const bool is_empty = step > 0 ? start >= stop : start <= stop;
  // unsigned, because the difference may exceed the largest i64
  const auto from = static_cast<std::uint64_t>(step > 0 ? start : stop);
  const auto to = static_cast<std::uint64_t>(step > 0 ? stop : start);
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t count = is_empty ? 0 : (to - from - 1) / stride + 1;
  if (count > static_cast<std::uint64_t>(all)) {
    detail::throw_error(Code::invalid_argument,
                        "range: from {} to {} by {} there are {} elements; at most 2^63 - 1 are allowed", start, stop,
                        step, count);
  }
  const auto rows = static_cast<std::int64_t>(count);
  return Pipeline(indexed_node({range_source(start, step, rows), sequential_order(rows)}));
}

Pipeline Pipeline::zip(std::span<const Pipeline> inputs) {
  std::vector<NodePointer> nodes;
  nodes.reserve(inputs.size());
  for (const Pipeline& input : inputs) nodes.push_back(input.node_);
  return Pipeline(zip_node(std::move(nodes)));
}

Pipeline Pipeline::shuffle(std::uint64_t seed, const ShuffleOptions& options) const {
  require_at_least(1, static_cast<std::int64_t>(options.buffer_elements), "shuffle", "buffer_elements");
  const IndexedRows* const rows = node_->indexed();
  if (rows != nullptr && rows->order->cardinality().is_known()) {
    return Pipeline(indexed_node({rows->source, shuffled_order(rows->order, seed, options.reshuffle_each_iteration)}));
  }
  return Pipeline(buffered_shuffle_node(node_, seed, options));
}

Pipeline Pipeline::repeat(std::int64_t times) const {
  if (times != forever) require_at_least(0, times, "repeat", "times");
  if (const IndexedRows* const rows = node_->indexed()) {
    std::shared_ptr<const RowOrder> order = repeated_order(rows->order, times);
    static_cast<void>(order->cardinality());  // throws if there are too many elements
    return Pipeline(indexed_node({rows->source, std::move(order)}));
  }
  NodePointer node = repeat_node(node_, times);
  static_cast<void>(node->cardinality());
  return Pipeline(std::move(node));
}

Pipeline Pipeline::take(std::int64_t count) const {
  require_at_least(0, count, "take", "count");
  return Pipeline(sliced_node(node_, 0, count));
}

Pipeline Pipeline::skip(std::int64_t count) const {
  require_at_least(0, count, "skip", "count");
  return Pipeline(sliced_node(node_, count, all));
}

Pipeline Pipeline::batch(std::int64_t rows, const BatchOptions& options) const {
  require_at_least(1, rows, "batch", "rows");
  if (const IndexedRows* const indexed = node_->indexed()) {
    return Pipeline(indexed_batch_node(*indexed, rows, options.drop_remainder));
  }
  return Pipeline(batch_node(node_, rows, options.drop_remainder));
}

Pipeline Pipeline::map(Transform transform) const { return map(std::move(transform), {}); }

Pipeline Pipeline::map(Transform transform, const MapOptions& options) const {
  const int threads = options.num_parallel_calls;
  constexpr int most_threads = 1024;
  if (threads < 1 || threads > most_threads) {
    detail::throw_error(Code::invalid_argument, "map: num_parallel_calls is {}; it must be in 1 to {}", threads,
                        most_threads);
  }
  if (const IndexedRows* const rows = node_->indexed()) {
    return Pipeline(indexed_node({mapped_source(rows->source, std::move(transform), threads), rows->order}));
  }
  if (threads > 1) return Pipeline(parallel_map_node(node_, std::move(transform), threads));
  return Pipeline(map_node(node_, std::move(transform)));
}

Pipeline Pipeline::filter(Predicate keep) const { return Pipeline(filter_node(node_, std::move(keep))); }

Pipeline Pipeline::unbatch() const { return Pipeline(unbatch_node(node_)); }

Pipeline Pipeline::shard(std::int64_t count, std::int64_t index) const {
  if (count != shard_hint || index != shard_hint) {
    require_at_least(1, count, "shard", "count");
    if (index < 0 || index >= count) {
      detail::throw_error(Code::invalid_argument, "shard: index is {}; with {} it must be at least 0 and below {}",
                          index, detail::counted(count, "shard"), count);
    }
  }
  const Part part{count, index};
  if (const IndexedRows* const rows = node_->indexed()) {
    return Pipeline(indexed_node({rows->source, sharded_order(rows->order, part)}));
  }
  return Pipeline(shard_node(node_, part));
}

Pipeline Pipeline::enumerate(std::int64_t start) const {
  const IndexedRows* const rows = node_->indexed();
  if (rows == nullptr || !rows->order->is_sequential()) return Pipeline(enumerate_node(node_, start));
  return Pipeline(indexed_node({enumerated_source(rows->source, start), rows->order}));
}

Pipeline Pipeline::cache() const { return Pipeline(cache_node(node_)); }

Pipeline Pipeline::concatenate(const Pipeline& next) const { return Pipeline(concatenate_node({node_, next.node_})); }

Pipeline Pipeline::interleave(Expand expand, const InterleaveOptions& options) const {
  return Pipeline(interleave_node(node_, std::move(expand), options));
}

Pipeline Pipeline::map_rows(Transform transform) const {
  if (has_single_elements()) {
    detail::throw_error(Code::invalid_argument, "map_rows: the dataset is not batched; call batch first, or use map");
  }
  return Pipeline(map_rows_node(node_, std::move(transform)));
}

Pipeline Pipeline::prefetch(int depth) const {
  require_at_least(1, depth, "prefetch", "depth");
  return Pipeline(prefetch_node(node_, depth));
}

Cardinality Pipeline::cardinality() const { return node_->cardinality(); }

std::optional<std::int64_t> Pipeline::batch_size() const {
  const std::int64_t rows = node_->batch_size();
  return rows == 0 || !node_->keeps_rows() ? std::nullopt : std::optional(rows);
}

bool Pipeline::has_single_elements() const { return node_->batched() == Batched::no; }

Reader Pipeline::open(std::uint64_t pass) const { return Reader(node_->open({pass, recycling_memory()})); }

}  // namespace lockstep::input
