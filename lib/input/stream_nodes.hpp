// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes that work on any sequence of elements, one after the other.

#pragma once

#include "input/node.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::input {

using NodePointer = std::shared_ptr<const Node>;

/// Passes on what another cursor gives.
class ForwardingCursor : public Cursor {
 public:
  explicit ForwardingCursor(std::unique_ptr<Cursor> source) noexcept : source_(std::move(source)) {}
  void read(Leaves& element) final { source_->read(element); }
  std::int64_t rows() final { return source_->rows(); }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) final {
    source_->read_rows(first, count, element);
  }

 protected:
  std::unique_ptr<Cursor> source_;
};

[[nodiscard]] std::unique_ptr<Cursor> map_cursor(std::unique_ptr<Cursor> source, Pipeline::Transform transform,
                                                 std::shared_ptr<MemoryResource> memory);

/// The next of several inputs, opened; null when there is none left.
using NextInput = std::function<std::unique_ptr<Cursor>()>;
/// Reads several inputs in turns.
[[nodiscard]] std::unique_ptr<Cursor> interleaved(NextInput next, const InterleaveOptions& options);
/// Throws Error(invalid_argument) for lengths below 1.
void check_options(const char* call, const InterleaveOptions& options);

[[nodiscard]] NodePointer generator_node(Pipeline::MakeGenerator make);
[[nodiscard]] NodePointer map_node(NodePointer source, Pipeline::Transform transform);
/// The transform sees only the rows that are read. `source` gives batches.
[[nodiscard]] NodePointer map_rows_node(NodePointer source, Pipeline::Transform transform);
[[nodiscard]] NodePointer batch_node(NodePointer source, std::int64_t rows, bool drop_remainder);
[[nodiscard]] NodePointer repeat_node(NodePointer source, std::int64_t times);
[[nodiscard]] NodePointer slice_node(NodePointer source, std::int64_t skip, std::int64_t take);
/// Each element is drawn from the `buffer_elements` that come next.
[[nodiscard]] NodePointer buffered_shuffle_node(NodePointer source, std::uint64_t seed, const ShuffleOptions& options);
[[nodiscard]] NodePointer prefetch_node(NodePointer source, int depth);
/// `threads` of its own call the transform, and elements keep their order.
[[nodiscard]] NodePointer parallel_map_node(NodePointer source, Pipeline::Transform transform, int threads);
[[nodiscard]] NodePointer filter_node(NodePointer source, Pipeline::Predicate keep);
[[nodiscard]] NodePointer unbatch_node(NodePointer source);
/// `part` may be a shard hint, which then waits for a Restriction.
[[nodiscard]] NodePointer shard_node(NodePointer source, const Part& part);
/// Each element behind its number, an i64 scalar.
[[nodiscard]] NodePointer enumerate_node(NodePointer source, std::int64_t start);
[[nodiscard]] NodePointer cache_node(NodePointer source);
[[nodiscard]] NodePointer zip_node(std::vector<NodePointer> sources);
[[nodiscard]] NodePointer concatenate_node(std::vector<NodePointer> sources);
[[nodiscard]] NodePointer interleave_node(NodePointer source, Pipeline::Expand expand,
                                          const InterleaveOptions& options);

/// A shard that nobody has given numbers cannot be read.
[[noreturn]] void throw_shard_hint();

}  // namespace lockstep::input
