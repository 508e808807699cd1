// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/node.hpp"

#include "input/rows.hpp"

namespace lockstep::input {

Cursor::~Cursor() = default;
Node::~Node() = default;

std::int64_t WholeCursor::rows() { return common_rows(present_); }

void WholeCursor::read_rows(std::int64_t first, std::int64_t count, Leaves& element) {
  if (first == 0 && count == rows()) {
    element = present_;
  } else {
    copy_rows(present_, first, count, memory_, element);
  }
}

}  // namespace lockstep::input
