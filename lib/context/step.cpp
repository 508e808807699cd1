// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "context/step.hpp"

#include "base/check.hpp"
#include "base/foreign_exception.hpp"
#include "context/thread_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace lockstep {
namespace {

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return detail::text_of_foreign_exception();
  }
}

}  // namespace

Step::Step(ReplicaTeam& team)
    : team_(team),
      slots_(new Slot[static_cast<std::size_t>(team.local_replicas())]),
      groups_(new Group[static_cast<std::size_t>(groups())]) {
  const int count = team.local_replicas();
  replicas_.reserve(static_cast<std::size_t>(count));  // so that each has an owner at once
  for (int i = 0; i < count; ++i) replicas_.emplace_back(StepAccess::make(*this, i));
  for (int first = 0; first < count; first += group_size) {
    group_of(first).first = first;
    group_of(first).size = std::min(group_size, count - first);
  }
  united_.size = count;
}

void Step::begin(Strategy* strategy, ReplicaTask task, RunMode mode) {
  strategy_ = strategy;
  task_ = task;
  mode_ = mode;
  {
    const detail::MutexLock lock(mutex_);
    failure_ = nullptr;
    abort_error_.reset();
  }
  if (replicas_.size() == 1) return;  // a single replica does not use the members below
  for (int i = 0; i < team_.local_replicas(); ++i) {
    slot(i).arrived.store(0, std::memory_order_relaxed);  // relaxed: the threads get the step after these stores
    slot(i).finished.store(false, std::memory_order_relaxed);
    slot(i).rendezvous = 0;
  }
  for (int i = 0; i < groups(); ++i) {
    Group& group = groups_[static_cast<std::size_t>(i)];
    group.gathered.store(0, std::memory_order_relaxed);
    group.released.store(0, std::memory_order_relaxed);
  }
  released_.store(0, std::memory_order_relaxed);
  turn_.store(0, std::memory_order_relaxed);
  status_.store(Status::open, std::memory_order_relaxed);
  aborted_.store(false, std::memory_order_relaxed);
  ended_.store(0, std::memory_order_relaxed);
}

void Step::run_replica(int local) noexcept {
  ReplicaContext& context = replica(local);
  const ContextGuard guard({Mode::replica, local, strategy_, &team_, this, &context, thread_context().scope});
  try {
    if (mode_ == RunMode::sequential) wait_for_turn(local);
    const detail::CurrentGpu gpu(context.devices().front());
    const bool ended =
        mode_ == RunMode::sequential && aborted();  // in concurrent mode every replica starts, even after a failure
    if (!ended) task_.call(task_.object, context);
  } catch (...) {
    fail(local, std::current_exception());
  }
  if (replicas_.size() == 1) return;
  ReplicaTeam& team = team_;
  pass_turn(local);
  ended_.fetch_add(1);
  slot(local).finished.store(true);
  team.waiter().wake();  // a nested step may be destroyed by now, but the team still exists
}

void Step::wait_for_all() {
  if (replicas_.size() == 1) return;
  const auto all_finished = [this] {
    for (int i = 0; i < team_.local_replicas(); ++i) {
      if (!slot(i).finished.load()) return false;
    }
    return true;
  };
  // no deadline: a step function may compute for any time, and its thread cannot be abandoned
  while (!team_.waiter().wait_until(all_finished, Waiter::Clock::now() + std::chrono::hours(1))) {}
}

std::exception_ptr Step::failure() const {
  const detail::MutexLock lock(mutex_);
  return failure_;
}

void Step::fail(int local, const std::exception_ptr& exception) noexcept {
  {
    const detail::MutexLock lock(mutex_);
    if (!failure_) failure_ = exception;
  }
  if (replicas_.size() == 1) return;
  abort(Error(Code::unavailable,
              fmt::format("replica {} failed: {}", team_.first_replica_id() + local, text_of(exception)),
              {team_.communicator().rank(), team_.first_replica_id() + local, "run", -1}),
        false);
}

bool Step::abort(const Error& error, bool only_if_open) noexcept {
  for (;;) {
    {
      const detail::MutexLock lock(
          mutex_);  // held until the error is stored: a replica reads the error after it sees the status
      Status expected = Status::open;
      if (status_.compare_exchange_strong(expected, Status::aborted)) {
        abort_error_ = error;
        aborted_.store(true);
        break;
      }
      if (expected == Status::aborted) return true;
      if (only_if_open) return false;
    }
    std::this_thread::yield();  // the leader will open the rendezvous again soon
  }
  team_.waiter().wake();
  return true;
}

void Step::throw_abort_error() {
  // the call of this replica must exist while the leader of its group reads it
  for (int i = 0; i < groups(); ++i) {
    while (groups_[static_cast<std::size_t>(i)].reads_calls.load()) std::this_thread::yield();
  }
  Error error = [this] {
    const detail::MutexLock lock(mutex_);
    LOCKSTEP_CHECK(abort_error_.has_value());
    return *abort_error_;
  }();
  throw error;
}

void Step::wait_for_turn(int local) {
  const auto my_turn = [this, local] { return turn_.load() == local || aborted(); };
  while (!team_.waiter().wait_until(my_turn, Waiter::Clock::now() + std::chrono::hours(1))) {}
}

void Step::pass_turn(int local) noexcept {
  if (mode_ != RunMode::sequential) return;
  const int count = team_.local_replicas();
  for (int i = 1; i < count; ++i) {
    const int next = (local + i) % count;
    if (!slot(next).finished.load()) {
      turn_.store(next);
      break;
    }
  }
}

void StepAccess::check_use(const ReplicaContext& replica, std::string_view call) {
  const ThreadContext& context = thread_context();
  if (context.replica == &replica && context.mode == Mode::replica) return;
  const ReplicaTeam& team = replica.step_.team();
  if (context.mode == Mode::outside && thread_default().team.get() == &team) return;
  if (context.replica == &replica) {
    detail::throw_error(Code::failed_precondition,
                        "{}: called inside update; call it in the step function, outside update", call);
  }
  if (context.replica == nullptr && context.step == &replica.step_) {
    detail::throw_error(Code::failed_precondition,
                        "{}: called inside merge_call, which is in cross-replica context; call it in the step "
                        "function, or use the Strategy& that the function of merge_call gets",
                        call);
  }
  if (context.replica == nullptr) {
    detail::throw_error(
        Code::failed_precondition,
        "{}: a ReplicaContext is valid only inside the step function given to run, on the thread of its replica ({})",
        call, replica.replica_id_in_sync_group());
  }
  if (context.team == &team) {
    detail::throw_error(
        Code::failed_precondition,
        "{}: mismatching ReplicaContext: the object of replica {} is used by replica {}; use the one that your step "
        "function was given",
        call, replica.replica_id_in_sync_group(), context.replica->replica_id_in_sync_group());
  }
  detail::throw_error(Code::failed_precondition,
                      "{}: mismatching Strategy objects: a ReplicaContext of {} is used inside a step of {}", call,
                      team.title(), context.team->title());
}

void StepAccess::name_merge_call(const ReplicaContext& replica, const UserCall& user) {
  check_use(replica, user.call);
  replica.step_.slot(replica.local_).user = user;
}

std::uint64_t StepAccess::lines_read(const ReplicaContext& replica) noexcept {
  return replica.step_.slot(replica.local_).lines;
}

UserCall StepAccess::take_name(const ReplicaContext& replica) noexcept {
  return std::exchange(replica.step_.slot(replica.local_).user, {});
}

}  // namespace lockstep
