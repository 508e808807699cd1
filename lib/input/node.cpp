// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/node.hpp"

#include "base/check.hpp"
#include "input/rows.hpp"

namespace lockstep::input {

Cursor::~Cursor() = default;
Node::~Node() = default;

std::shared_ptr<const Node> Node::restricted(const Restriction& restriction) const {
  if (restriction.files) {
    detail::throw_error(Code::invalid_argument,
                        "shard by file: a source of the dataset is not made of files (arrays, ranges and generators "
                        "are not); shard its elements instead");
  }
  return shared_from_this();
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
