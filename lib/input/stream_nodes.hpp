// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes that work on any sequence of elements, one after the other.

#pragma once

#include "input/node.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::input {

using NodePointer = std::shared_ptr<const Node>;

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

}  // namespace lockstep::input
