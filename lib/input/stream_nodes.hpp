// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes that work on any sequence of elements, without random access.

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

/// Base of cursors that return elements of another cursor unchanged.
class ForwardingCursor : public Cursor {
 public:
  explicit ForwardingCursor(std::unique_ptr<Cursor> source) noexcept : source_(std::move(source)) {}
  void read(Leaves& element) final { source_->read(element); }
  std::int64_t rows() final { return source_->rows(); }
  [[nodiscard]] std::int64_t full_rows() const final { return source_->full_rows(); }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) final {
    source_->read_rows(first, count, element);
  }

 protected:
  std::unique_ptr<Cursor> source_;
};

[[nodiscard]] std::unique_ptr<Cursor> map_cursor(std::unique_ptr<Cursor> source, Pipeline::Transform transform,
                                                 std::shared_ptr<MemoryResource> memory);

/// Opens the next of several inputs; returns null after the last one.
using NextInput = std::function<std::unique_ptr<Cursor>()>;
/// A cursor that interleaves several inputs.
[[nodiscard]] std::unique_ptr<Cursor> interleaved(NextInput next, const InterleaveOptions& options);
/// Throws Error(invalid_argument) if the cycle length or the block length is below 1.
void check_options(const char* call, const InterleaveOptions& options);

[[nodiscard]] NodePointer generator_node(Pipeline::MakeGenerator make);
[[nodiscard]] NodePointer map_node(NodePointer source, Pipeline::Transform transform);
/// Transforms only the rows that are read. `source` must be batched.
[[nodiscard]] NodePointer map_rows_node(NodePointer source, Pipeline::Transform transform);
[[nodiscard]] NodePointer batch_node(NodePointer source, std::int64_t rows, bool drop_remainder);
[[nodiscard]] NodePointer repeat_node(NodePointer source, std::int64_t times);
[[nodiscard]] NodePointer slice_node(NodePointer source, std::int64_t skip, std::int64_t take);
/// Draws each element from a buffer of the next `buffer_elements` elements.
[[nodiscard]] NodePointer buffered_shuffle_node(NodePointer source, std::uint64_t seed, const ShuffleOptions& options);
[[nodiscard]] NodePointer prefetch_node(NodePointer source, int depth);
/// `threads` background threads call the transform; elements keep their order.
[[nodiscard]] NodePointer parallel_map_node(NodePointer source, Pipeline::Transform transform, int threads);
[[nodiscard]] NodePointer filter_node(NodePointer source, Pipeline::Predicate keep);
[[nodiscard]] NodePointer unbatch_node(NodePointer source);
/// `part` may be a shard hint (`part.count` is shard_hint), which a Restriction must replace before reading.
[[nodiscard]] NodePointer shard_node(NodePointer source, const Part& part);
/// The elements of `source`, each with an additional first tensor: its number, an i64 scalar that counts from `start`.
[[nodiscard]] NodePointer enumerate_node(NodePointer source, std::int64_t start);
[[nodiscard]] NodePointer cache_node(NodePointer source);
[[nodiscard]] NodePointer zip_node(std::vector<NodePointer> sources);
[[nodiscard]] NodePointer concatenate_node(std::vector<NodePointer> sources);
[[nodiscard]] NodePointer interleave_node(NodePointer source, Pipeline::Expand expand,
                                          const InterleaveOptions& options);

/// Throws the error for a read of a dataset whose shard hint has not been replaced.
[[noreturn]] void throw_shard_hint();

}  // namespace lockstep::input
