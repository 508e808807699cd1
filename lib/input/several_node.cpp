// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/several_node.hpp"

#include <algorithm>

namespace lockstep::input {

std::int64_t SeveralNode::batch_size() const {
  const std::int64_t rows = sources_.front()->batch_size();
  const bool agree = std::ranges::all_of(sources_, [&](const auto& source) { return source->batch_size() == rows; });
  return agree ? rows : 0;
}

std::vector<std::string> SeveralNode::files() const {
  std::vector<std::string> all;
  for (const auto& source : sources_) {
    const std::vector<std::string> some = source->files();
    if (some.empty()) return {};
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

bool SeveralNode::has_shard_hint() const {
  return std::ranges::any_of(sources_, [](const auto& source) { return source->has_shard_hint(); });
}

std::shared_ptr<const Node> SeveralNode::restricted(const Restriction& restriction) const {
  std::vector<std::shared_ptr<const Node>> fewer;
  fewer.reserve(sources_.size());
  for (const auto& source : sources_) fewer.push_back(source->restricted(restriction));
  return over(std::move(fewer));
}

}  // namespace lockstep::input
