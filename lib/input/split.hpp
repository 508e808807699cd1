// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of batches and of streams of batches into chunks for the replicas.

#pragma once

#include "input/node.hpp"

#include <lockstep/input/input_options.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::input {

/// Rows [first, first + count) of a batch.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// The rows that `replica` gets of a batch of `rows` rows, if a full batch has `full` rows. The chunks are contiguous,
/// in the order of replicas, and cover the batch. If `full` is own_rows, the batch is a full batch.
[[nodiscard]] RowRange chunk_of(SplitPolicy policy, std::int64_t full, std::int64_t rows, int replicas,
                                int replica) noexcept;

/// Sizes of the chunks into which a rank divides its stream of rows; the list is used cyclically. The sizes are the
/// chunk sizes of a full batch, beginning with the chunk of replica `first`, the lowest replica of the rank.
[[nodiscard]] std::vector<std::int64_t> stream_chunks(std::int64_t full, int replicas, int first);
/// Number of chunks in a stream of `rows` rows, if `sizes` is used cyclically. Some sizes may be 0, but not all.
[[nodiscard]] std::int64_t chunks_of_stream(std::span<const std::int64_t> sizes, std::int64_t rows) noexcept;

/// The rows of all batches in order, regrouped into chunks. Chunk i has stream_chunks(full, replicas, first)[i mod
/// replicas] rows; `full` is Cursor::full_rows of the batch in which the chunk begins, so that all chunks have the
/// sizes of a full batch if there is one size of batches. The last chunk may be short; there is no chunk after the last
/// row.
[[nodiscard]] std::shared_ptr<const Node> stream_chunks_node(std::shared_ptr<const Node> batches, int replicas,
                                                             int first);

/// The number of rows of the current element. Throws Error(invalid_argument) if the element is not a batch, so that it
/// cannot be divided among `replicas` replicas.
[[nodiscard]] std::int64_t rows_to_divide(Cursor& cursor, int replicas);
[[noreturn]] void throw_not_batched(int replicas);

/// Each batch of n rows, divided into `slices` slices of ceil(n / slices) rows; the last slices may be shorter or
/// empty.
[[nodiscard]] std::shared_ptr<const Node> batch_slices_node(std::shared_ptr<const Node> batches, int slices);

}  // namespace lockstep::input
