// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/node.hpp"

#include "base/check.hpp"
#include "input/rows.hpp"

#include <algorithm>

namespace lockstep::input {

Cursor::~Cursor() = default;
Node::~Node() = default;

std::shared_ptr<const Node> Node::restricted(const Restriction& restriction) const {
  if (restriction.files) {
    detail::throw_error(Code::invalid_argument,
                        "shard by file: a source of the dataset is an array, a range or a generator, not files; shard "
                        "its elements instead");
  }
  return shared_from_this();
}

Batched SeveralNode::batched() const {
  Batched least = Batched::yes;
  for (const auto& source : sources_) least = std::min(least, source->batched());
  return least;
}

bool SeveralNode::keeps_rows() const {
  return std::ranges::all_of(sources_, [](const auto& source) { return source->keeps_rows(); });
}

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
  return with_source(std::move(fewer));
}

std::int64_t WholeCursor::rows() { return common_rows(present_); }

void WholeCursor::read_rows(std::int64_t first, std::int64_t count, Leaves& element) {
  if (first == 0 && count == rows()) {
    element = present_;
  } else {
    copy_rows(present_, first, count, memory_, element);
  }
}

}  // namespace lockstep::input
