// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/epoch.hpp"

#include "base/log.hpp"
#include "base/mark.hpp"
#include "transport/shm/node_group.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

namespace {

/// While it exists: if this rank waits in Operation::abandon, it answers ranks that ask whether it responds. Those
/// ranks may already have ended the epoch.
class AnswersWhileAbandoning final : public WaitObserver {
 public:
  AnswersWhileAbandoning(NodeGroup* group, Watchdog& watchdog, std::uint64_t epoch)
      : group_(group), watchdog_(watchdog), epoch_(epoch) {
    if (group_ != nullptr) group_->observe_waits(this);
  }
  ~AnswersWhileAbandoning() override {
    if (group_ != nullptr) group_->observe_waits(nullptr);
  }
  void waits_for(int member) noexcept override {
    if (has_failed_) return;
    try {
      const bool is_news = told_ >= 0 && told_ != member;
      if (watchdog_.answer_while_abandoning(epoch_, member, is_news)) told_ = member;
    } catch (const std::exception& error) {
      has_failed_ = true;
      log_warning("this rank cannot tell other ranks that it waits for a rank of its node: {}", error.what());
    }
  }

 private:
  NodeGroup* const group_;
  Watchdog& watchdog_;
  const std::uint64_t epoch_;
  int told_ = -1;  // the member of the last answer; -1: none
  bool has_failed_ = false;
};

}  // namespace

std::optional<Failure> Epoch::end_elsewhere(std::int64_t sequence) const {
  if (const Failure* const failure = control_.abort_record(number_, sequence)) return *failure;
  return node_failures_.find(number_, sequence);
}

SharedError Epoch::end(const Failure& failure) {
  // first what needs memory: if there is none, nothing has changed, and this can be called again
  if (failure.is_loss()) lose(failure);
  control_.note_end(number_, {queue_.sequence(), failure});
  const auto error = std::make_shared<const Error>(failure.error());
  std::optional<Failure> loss_of_data = failure;

  // if other ranks have begun to move data of the head, the head of this rank is the same operation
  const bool has_stale_transfers = !queue_.is_empty() && queue_.head().uses_transfers();
  if (has_stale_transfers) reached(Mark::stale_transfers);
  // other ranks may work on the head before this rank knows that all ranks have arrived
  if (head_may_be_shared()) {
    const AnswersWhileAbandoning answers(transport_.sharing_group(), watchdog_, number_);
    agreement_.abandon();
    if (!queue_.is_empty() && queue_.head().epoch() <= number_ && queue_.head().abandon(transport_) && !lost_)
      lost_ = std::move(loss_of_data);
  }
  if (!pending_.empty()) {
    pending_.pop_front();
    unobserved_ = nullptr;
  } else if (!queue_.is_empty()) {
    unobserved_ = error;
    has_ended_unobserved_ = true;
  }
  queue_.fail_epoch(number_, error);
  ++number_;
  queue_.restart_numbers();
  agreement_.close();
  watchdog_.reset();
  agreement_.enter_epoch(number_);
  control_.enter_epoch(number_);
  transport_.enter_epoch(number_, has_stale_transfers);
  if (const auto& loss = control_.late_loss()) lose(*loss);
  if (number_ == most_) {  // on all ranks
    lose({Code::unavailable, fmt::format("{} failures are the most after which a communicator works", most_),
          queue_.context_of(-1)});
  }
  end_if_aborted();  // no operation of the new epoch has begun yet
  return error;
}

void Epoch::end_by_other_rank(const Failure& failure) {
  if (failure.is_loss()) lose(failure);
  const Failure published = node_failures_.publish(number_, {queue_.sequence(), failure}).failure;
  auto error = end(published);
  if (published.ends == Ends::epoch && !lost_) ended_before_recovery_ = std::move(error);
}

void Epoch::end_everywhere(Failure failure) {
  const bool is_recovery = !queue_.is_empty() && queue_.head().descriptor().is_recovery;
  if (is_recovery && failure.ends == Ends::epoch) failure.ends = Ends::recovery;
  const EpochEnd own{queue_.sequence(), std::move(failure)};
  const EpochEnd published = node_failures_.publish(number_, own);
  if (published.failure.text != own.failure.text) reached(Mark::another_failure_of_node);
  // a loss is told even if the ranks of this node throw another failure
  const bool is_other_loss = own.failure.is_loss() && !published.failure.is_loss();
  if (is_other_loss) lose(own.failure);
  send_abort(number_, is_other_loss ? own : published);
  // converted to a record and back, so that this rank throws the same error as the other ranks
  end(failure_of(record_of(published.failure)));
}

void Epoch::abort(const std::string& text, const std::source_location& where, Code code) {
  queue_.restart_merge_count();
  if (std::exchange(unobserved_, nullptr) != nullptr && has_ended_unobserved_) {
    reached(Mark::abort_after_end);  // the epoch has ended already, with another failure
    return;
  }
  Failure failure{code, fmt::format("rank {} failed{}: {}", transport_.rank(), describe(where), text),
                  queue_.context_of(transport_.rank())};
  // if other ranks may have entered the head of the queue together with this rank, the head is still completed
  if (!queue_.is_empty() && head_may_be_shared()) {
    reached(Mark::abort_waits_for_operation);
    send_abort(number_of_next_post(), {pending_.empty() ? queue_.sequence() + 1 : 0, failure});
    pending_.push_back(std::move(failure));  // published when it takes effect
    return;
  }
  end_everywhere(std::move(failure));
  unobserved_ = nullptr;  // the caller knows of the failure
}

void Epoch::end_if_aborted() {
  if (pending_.empty()) return;
  const Failure failure = pending_.front();
  static_cast<void>(node_failures_.publish(number_, {queue_.sequence(), failure}));
  end(failure);
}

void Epoch::send_abort(std::uint64_t epoch, const EpochEnd& end) {
  try {
    control_.send_abort(epoch, end);
  } catch (const Error& error) {
    log_warning("{}: cannot send the failure of this rank to another rank: {}", queue_.name(), error.what());
  }
}

void Epoch::throw_error_of(const Operation& operation) {
  queue_.restart_merge_count();
  if (operation.error() == unobserved_) unobserved_ = nullptr;
  Error error(*operation.error());
  // a message between two ranks fails for these two only
  if (operation.descriptor().traits().pattern != Pattern::message) PropagationMark::set(error, mark_);
  throw Error(error);
}

void Epoch::propagate(Error* error, const std::string& text, const std::source_location& where, FoundBy found_by,
                      bool may_send) {
  const bool is_known =
      error != nullptr ? PropagationMark::of(*error) == mark_ : std::current_exception() == known_foreign_;
  if (is_known) return;
  // if the replicas of one rank differ, every rank throws a mismatch, as it does if ranks differ
  const bool differ = error != nullptr && error->code() == Code::mismatch;
  if (found_by == FoundBy::this_rank && may_send) abort(text, where, differ ? Code::mismatch : Code::unavailable);
  if (error != nullptr) {
    PropagationMark::set(*error, mark_);
  } else {
    known_foreign_ = std::current_exception();
  }
}

void Epoch::forget_known() {
  mark_ = std::make_shared<int>();
  known_foreign_ = nullptr;
}

}  // namespace lockstep::detail
