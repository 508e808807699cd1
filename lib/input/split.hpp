// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

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

/// The rows of `replica` in a batch of `rows` rows, where a full batch has `full`. Chunks follow each other in replica
/// order and cover the batch. A batch longer than `full` (a map may have made it so) counts as a full one of its own
/// size.
[[nodiscard]] RowRange chunk_of(SplitPolicy policy, std::int64_t full, std::int64_t rows, int replicas,
                                int replica) noexcept;

/// The sizes in which a rank takes its own stream of rows, over and over: those of the chunks of a full batch, the
/// first one that of replica `first`, the rank's first.
[[nodiscard]] std::vector<std::int64_t> stream_chunks(std::int64_t full, int replicas, int first);
/// How many chunks of those sizes a stream of `rows` rows has; `sizes` do not all have to be above 0, their sum has.
[[nodiscard]] std::int64_t chunks_of_stream(std::span<const std::int64_t> sizes, std::int64_t rows) noexcept;

/// The rows of all batches of `batches` one after the other, in runs of `sizes`, over and over. The last run may be
/// short; there is none behind the last row.
[[nodiscard]] std::shared_ptr<const Node> stream_chunks_node(std::shared_ptr<const Node> batches,
                                                             std::vector<std::int64_t> sizes);

/// Each batch of n rows as `slices` slices of ceil(n / slices) rows, of which the last may be short or empty.
[[nodiscard]] std::shared_ptr<const Node> batch_slices_node(std::shared_ptr<const Node> batches, int slices);

}  // namespace lockstep::input
