// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How the head of the queue comes to its end: the ranks agree on it, then its steps are done, by whoever waits.

#include "collectives/engine/engine.hpp"

#include "collectives/call/backoff.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

/// Does what `drive` does again and again, without looking at clock and mail: as long as everybody comes in time,
/// nobody has anything else to say. Whether that was so; if not, the operation is the head of the queue, where it
/// stands now.
bool Engine::run_at_once(const std::shared_ptr<Operation>& operation) {
  const std::scoped_lock lock(mutex_);
  if (!queue_.empty() || unobserved_ || leaving_ || lost_ || !has_node_group_) {
    enqueue(operation);
    return false;
  }
  operation->epoch = epoch_;
  operation->note_merges(merges_);
  Backoff backoff(spins_);
  try {
    agreement_->open(epoch_, sequence_, *operation);
    bool has_come = agreement_->advance();
    while (!has_come && backoff.pause_briefly()) has_come = agreement_->advance();
    if (has_come && agreement_->all_agree()) {
      agreement_->close();
      operation->agreed = true;
      operation->start(*transport_, workspace_);
      do {
        if (!operation->advance(*transport_, workspace_)) continue;
        operation->error = error_of(*operation);
        operation->done = true;
        ++sequence_;
        return true;
      } while (backoff.pause_briefly());
    }
    queue_.push_back(operation);
  } catch (const std::exception& error) {
    queue_.push_back(operation);
    stop_head(error);
  }
  return false;
}

void Engine::run_progress(const std::stop_token& stop) {
  Backoff backoff(spins_);
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty() && pairs_.is_empty()) {
        work_.wait(lock, stop, [this] { return !queue_.empty() || !pairs_.is_empty(); });
        backoff = Backoff(spins_);
      }
      drive();
    }
    backoff.pause_in_background();
  }
}

void Engine::drive_pairs() {
  const auto fail = [this](Code code, std::string text) {
    pairs_.fail_all({code, std::move(text), {transport_->rank(), -1, {}, -1}});
  };
  try {
    if (!transport_->is_alive()) {
      fail(Code::failed_precondition, "MPI was finalised before the message was taken");
      return;
    }
    control_.poll();
    pairs_.drive(workspace_);
  } catch (const Error& error) {
    fail(error.code(), error.text());
  } catch (const std::exception& error) {
    fail(Code::internal, error.what());
  }
}

void Engine::drive() {
  if (!pairs_.is_empty() || control_.has_pair_mail()) drive_pairs();
  if (queue_.empty()) return;
  try {
    drive_head();
  } catch (const std::exception& error) {
    stop_head(error);
  }
}

void Engine::drive_head() {
  if (!transport_->is_alive()) {
    fail_epoch({Code::failed_precondition, "MPI was finalised before the operation was complete",
                context_of(transport_->rank())});
    return;
  }
  control_.poll();
  if (const Failure* failure = control_.failure(epoch_, sequence_)) {
    fail_epoch(Failure(*failure));
    return;
  }
  if (lost_) {
    declare({Code::unavailable, fmt::format("{} is lost since: {}", options_.name, lost_->text), lost_->context});
    return;
  }
  Operation& head = *queue_.front();
  start_waiting();
  if (!head.agreed) {
    if (!agreement_->is_open()) agreement_->open(epoch_, sequence_, head);
    if (!agreement_->advance()) {
      watch();
      return;
    }
    conclude_agreement();
    if (!head.agreed) return;
    head_since_ = last_driven_;  // everybody is here: the data has a deadline of its own
  }
  if (head.advance(*transport_, workspace_)) {
    finish_head(error_of(head));
  } else {
    watch();
  }
}

/// Time in which nobody drove does not count: the others may be here and waiting.
void Engine::start_waiting() {
  const Clock::time_point now = Clock::now();
  if (!head_since_) {
    head_since_ = now;
  } else if (now - last_driven_ > std::chrono::seconds(1)) {
    *head_since_ += now - last_driven_;
  }
  last_driven_ = now;
}

void Engine::conclude_agreement() {
  agreement_->close();
  Operation& head = *queue_.front();
  if (agreement_->all_agree()) {
    head.agreed = true;
    head.start(*transport_, workspace_);
    return;
  }
  const Summary summary = agreement_->summary();
  const Side& a = summary.lowest;
  const Side& b = summary.differing;
  ErrorContext context = context_of(b.rank);
  finish_head(std::make_exception_ptr(
      Error(Code::mismatch,
            fmt::format("ranks disagree on operation #{} of {}: rank {} calls {}, rank {} calls {}{}", context.sequence,
                        options_.name, a.rank, describe(a.descriptor), b.rank, describe(b.descriptor),
                        difference_of_merges(a.rank, a.descriptor.merges, b.rank, b.descriptor.merges)),
            context)));
}

void Engine::finish_head(std::exception_ptr error) {
  Operation& head = *queue_.front();
  head.error = std::move(error);
  head.done = true;
  queue_.erase(queue_.begin());
  ++sequence_;
  head_since_.reset();
  roll_called_ = warned_ = false;
  if (leaving_) {
    fail_epoch(Failure(*leaving_));
    unobserved_ = nullptr;  // who announced it knows
  }
}

}  // namespace lockstep::detail
