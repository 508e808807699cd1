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

void OperationQueue::fail_epoch(std::uint64_t epoch, const SharedError& error) {
  std::int64_t sequence = sequence_;
  while (!operations_.empty() && operations_.front()->epoch() <= epoch) {
    recorder_.finish(*operations_.front(), sequence, error.get());
    operations_.front()->notify_end(sequence++, error.get());
    operations_.front()->finish(error);
    operations_.erase(operations_.begin());
  }
  recorder_.note_failure(epoch, sequence_, *error);
}

void OperationQueue::refuse(std::uint64_t epoch, const SharedError& error) {
  constexpr std::int64_t no_number = -1;
  while (!operations_.empty() && operations_.front()->epoch() <= epoch) {
    const std::shared_ptr<Operation> refused = std::move(operations_.front());
    operations_.erase(operations_.begin());
    recorder_.finish(*refused, no_number, error.get());
    refused->notify_end(no_number, error.get());
    refused->finish(error);
    count_one_refused();
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
