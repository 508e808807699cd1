// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How an epoch ends: who says so, what becomes of what is queued, and how each rank hears of it once.

#include "collectives/engine/engine.hpp"

#include "base/log.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

void Engine::throw_error_of(const Operation& operation) {
  merges_ = {};
  std::rethrow_exception(operation.error);
}

void Engine::announce_failure(const std::string& text) {
  // where this thread may not speak the others get their deadline
  if (is_forked_copy() || !(any_thread_may_call_ || transport_->this_thread_may_call())) return;
  const std::scoped_lock lock(mutex_);
  merges_ = {};
  const Failure failure{Code::unavailable, fmt::format("rank {} left the common course: {}", transport_->rank(), text),
                        context_of(transport_->rank())};
  // the others may have entered the head of the queue with this rank: that one is still completed
  const bool head_is_shared = !queue_.empty() && (queue_.front()->agreed || agreement_->is_shown());
  if (!head_is_shared) {
    declare(failure);
    unobserved_ = nullptr;  // the caller knows
    return;
  }
  if (leaving_) return;
  tell(sequence_ + 1, failure);
  leaving_ = failure;
}

void Engine::stop_head(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  const Failure failure{ours != nullptr ? ours->code() : Code::internal, ours != nullptr ? ours->text() : error.what(),
                        context_of(transport_->rank())};
  // an operation that stopped half-way: mostly nobody knows what still moves
  const bool is_known = !queue_.empty() && queue_.front()->agreed && queue_.front()->survives_faults();
  if (!is_known && !lost_) lost_ = failure;
  declare(failure);
}

std::exception_ptr Engine::error_of(const Operation& head) const {
  const Failure* const failure = head.failure();
  if (failure == nullptr) return nullptr;
  ErrorContext context = failure->context;
  context.operation = operation_name(head.descriptor());
  context.sequence = sequence_;
  return std::make_exception_ptr(Error(failure->code, fmt::format("{}: {}", text_of(head), failure->text), context));
}

void Engine::fail_epoch(const Failure& failure) {
  // others may have begun to work on the head before this rank knows that all have come
  bool is_shared = agreement_->is_shown() || (!queue_.empty() && queue_.front()->agreed);
  if (is_shared) agreement_->abandon();
  const auto error = std::make_exception_ptr(failure.error());
  if (!queue_.empty()) unobserved_ = error;
  // what was posted after this rank had announced its departure belongs to the next epoch
  while (!queue_.empty() && queue_.front()->epoch <= epoch_) {
    Operation& operation = *queue_.front();
    if (std::exchange(is_shared, false) && operation.abandon(*transport_) && !lost_) lost_ = failure;
    operation.error = error;
    operation.done = true;
    queue_.erase(queue_.begin());
  }
  agreement_->close();
  leaving_.reset();
  head_since_.reset();
  roll_called_ = warned_ = false;
  ++epoch_;
  sequence_ = 0;
  agreement_->enter_epoch(epoch_);
  control_.enter_epoch(epoch_);
  transport_->enter_epoch(epoch_);
}

void Engine::tell(std::int64_t sequence, const Failure& failure) {
  try {
    control_.send_failure(epoch_, sequence, failure);
  } catch (const Error& error) {
    log_warning("another rank could not be told of a failure: {}", error.what());
  }
}

void Engine::declare(const Failure& failure) {
  tell(sequence_, failure);
  // this rank reads the letter that the others get
  fail_epoch(failure_of(failure_message(epoch_, sequence_, failure)));
}

ErrorContext Engine::context_of(int rank) const {
  ErrorContext context;
  context.rank = rank;
  context.sequence = sequence_;
  if (!queue_.empty()) context.operation = operation_name(queue_.front()->descriptor());
  return context;
}

}  // namespace lockstep::detail
