// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/operation.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {

Buffer Workspace::take(std::size_t bytes) {
  // the smallest spare buffer that is large enough
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it) {
    if (it->size() >= bytes && (best == spare_.end() || it->size() < best->size())) best = it;
  }
  if (best == spare_.end()) {
    // none is large enough: free the largest one before allocating
    const auto largest = std::max_element(spare_.begin(), spare_.end(),
                                          [](const Buffer& a, const Buffer& b) { return a.size() < b.size(); });
    if (largest != spare_.end()) spare_.erase(largest);
    return Buffer(bytes);
  }
  Buffer buffer = std::move(*best);
  spare_.erase(best);
  return buffer;
}

void Workspace::give_back(Buffer&& buffer) {
  if (buffer.size() != 0) spare_.push_back(std::move(buffer));
}

}  // namespace lockstep::detail
