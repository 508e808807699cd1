// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/operation.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {

Workspace::Buffer Workspace::take(std::size_t bytes) {
  // the smallest spare buffer that is large enough, else the largest one, grown
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it) {
    if (best == spare_.end()) {
      best = it;
    } else if (it->size() >= bytes ? (best->size() < bytes || it->size() < best->size())
                                   : (best->size() < bytes && it->size() > best->size())) {
      best = it;
    }
  }
  Buffer buffer;
  if (best != spare_.end()) {
    buffer = std::move(*best);
    spare_.erase(best);
  }
  if (buffer.size() < bytes) {
    buffer.clear();  // nothing in it is worth copying
    buffer.resize(bytes);
  }
  return buffer;
}

void Workspace::give_back(Buffer&& buffer) {
  if (!buffer.empty()) spare_.push_back(std::move(buffer));
}

}  // namespace lockstep::detail
