// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank's own stream of batches, cut into batches for its replicas, which take them in turn.

#pragma once

#include "input/node.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::input {

/// The rows of all batches of `batches` one after the other, in runs of `sizes`, over and over. The last run may be
/// short; there is none behind the last row.
[[nodiscard]] std::shared_ptr<const Node> stream_chunks_node(std::shared_ptr<const Node> batches,
                                                             std::vector<std::int64_t> sizes);

/// Each batch of n rows as `slices` slices of ceil(n / slices) rows, of which the last may be short or empty.
[[nodiscard]] std::shared_ptr<const Node> batch_slices_node(std::shared_ptr<const Node> batches, int slices);

}  // namespace lockstep::input
