// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/operation_queue.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

void OperationQueue::finish_head(SharedError error) {
  const std::shared_ptr<Operation> head = std::move(operations_.front());
  operations_.erase(operations_.begin());
  recorder_.finish(*head, sequence_, error.get());
  if (error != nullptr) recorder_.note_failure(head->epoch(), sequence_, *error);
  head->notify_end(sequence_, error.get());
  head->finish(std::move(error));
  ++sequence_;
}

void OperationQueue::end_first(std::int64_t sequence, const SharedError& error) {
  const std::shared_ptr<Operation> first = std::move(operations_.front());
  operations_.erase(operations_.begin());
  recorder_.finish(*first, sequence, error.get());
  first->notify_end(sequence, error.get());
  first->finish(error);
}

void OperationQueue::fail_epoch(std::uint64_t epoch, const SharedError& error) {
  for (std::int64_t sequence = sequence_; is_of(epoch); ++sequence) end_first(sequence, error);
  recorder_.note_failure(epoch, sequence_, *error);
}

void OperationQueue::refuse(std::uint64_t epoch, const SharedError& error) {
  constexpr std::int64_t no_number = -1;
  for (; is_of(epoch); count_one_refused()) end_first(no_number, error);
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
