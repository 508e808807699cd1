// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/operation_queue.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

void OperationQueue::finish_head(SharedError error) {
  operations_.front()->finish(std::move(error));
  operations_.erase(operations_.begin());
  ++sequence_;
}

void OperationQueue::fail_epoch(std::uint64_t epoch, const SharedError& error) {
  while (!operations_.empty() && operations_.front()->epoch() <= epoch) {
    operations_.front()->finish(error);
    operations_.erase(operations_.begin());
  }
}

void OperationQueue::count_merge(std::uint64_t run) noexcept {
  if (merges_.run != run) merges_.in_run = 0;
  merges_.run = run;
  ++merges_.in_run;
  ++merges_.calls;
}

std::string OperationQueue::text_of(const Operation& operation) const {
  return fmt::format("operation #{} of {}, {}", sequence_, name_, describe(operation.descriptor()));
}

ErrorContext OperationQueue::context_of(int rank) const {
  ErrorContext context;
  context.rank = rank;
  context.sequence = sequence_;
  if (!operations_.empty()) context.operation = operation_name(operations_.front()->descriptor());
  return context;
}

}  // namespace lockstep::detail
