// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/operation_queue.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

void OperationQueue::finish_head(const SharedError& error) {
  const std::uint64_t epoch = head().epoch();
  end_first(sequence_, error);
  if (error != nullptr) recorder_.note_failure(epoch, sequence_, *error);
  ++sequence_;
}

void OperationQueue::end_first(std::int64_t sequence, const SharedError& error) {
  const std::shared_ptr<Operation> first = std::move(operations_[head_++]);
  if (is_empty()) {
    operations_.clear();
    head_ = 0;
  }
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
  if (!is_empty()) context.operation = operation_name(head().descriptor());
  return context;
}

}  // namespace lockstep::detail
