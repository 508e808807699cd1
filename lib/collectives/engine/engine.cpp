// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What callers do with the queue: put operations there, wait for them, ask for them.

#include "collectives/engine/engine.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/processor.hpp"
#include "collectives/call/backoff.hpp"
#include "collectives/engine/hosts_agreement.hpp"
#include "collectives/engine/message_agreement.hpp"
#include "collectives/engine/node_agreement.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {
namespace {

/// Long where every rank of the node, with its replicas, has a CPU of its own. A rank that is bound to fewer CPUs than
/// the node has counts as one that shares: it cannot see whom it shares them with.
int spins_before_yield(const Transport& transport, int local_replicas) {
  return transport.ranks_on_node() * local_replicas <= allowed_cpus() ? Backoff::own_core_spins
                                                                      : Backoff::shared_core_spins;
}

std::unique_ptr<Agreement> make_agreement(Transport& transport, ControlChannel& control) {
  if (NodeGroup* const group = transport.node_group()) return std::make_unique<NodeAgreement>(*group);
  if (NodeGroup* const group = transport.local_group())
    return std::make_unique<HostsAgreement>(control, *group, transport.rank(), transport.node_leaders());
  return std::make_unique<MessageAgreement>(control, transport.rank(), transport.size());
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, EngineOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      spins_(spins_before_yield(*transport_, options_.local_replicas)),
      any_thread_may_call_(transport_->has_free_threads()),
      has_node_group_(transport_->node_group() != nullptr),
      fork_depth_(fork_depth()),
      control_(*transport_),
      agreement_(make_agreement(*transport_, control_)),
      pairs_(*transport_, control_, {options_.warn_after, options_.fail_after, options_.name}) {
  queue_.reserve(16);
  options_.family->join(*this);
}

Engine::~Engine() {
  if (is_forked_copy()) {
    // the parent's communicator, thread and shared memory are not the child's to end
    [[maybe_unused]] const Transport* const of_the_parent = transport_.release();
    [[maybe_unused]] const auto* const ran_in_the_parent = new std::jthread(std::move(progress_));
    return;
  }
  options_.family->leave(*this);
  if (progress_.joinable()) {
    progress_.request_stop();
    progress_.join();
  }
  Backoff backoff(spins_);
  while (true) {
    const std::scoped_lock lock(mutex_);
    if ((queue_.empty() && pairs_.is_empty()) || !transport_->is_alive()) break;
    drive();
    backoff.pause();
  }
}

bool Engine::is_forked_copy() const noexcept { return fork_depth() != fork_depth_; }

void Engine::require_caller(const Operation& operation) const {
  if (is_forked_copy()) {
    throw_error(Code::failed_precondition,
                "{} was called in a child process made by fork(); {} belongs to the parent, and MPI does not work in a "
                "child",
                operation_name(operation.descriptor()), options_.name);
  }
  if (any_thread_may_call_ || transport_->this_thread_may_call()) return;
  throw_error(Code::failed_precondition,
              "{} was called on a thread that may not enter MPI: MPI granted less than MPI_THREAD_SERIALIZED, so "
              "only the main thread may",
              operation_name(operation.descriptor()));
}

void Engine::run(const std::shared_ptr<Operation>& operation) {
  require_caller(*operation);
  if (!run_at_once(operation)) {
    wait(*operation);
  } else if (operation->error) {
    const std::scoped_lock lock(mutex_);
    throw_error_of(*operation);
  }
}

void Engine::count_merge(std::uint64_t run) {
  const std::scoped_lock lock(mutex_);
  if (merges_.run != run) merges_.in_run = 0;
  merges_.run = run;
  ++merges_.in_run;
  ++merges_.calls;
}

std::uint64_t Engine::next_epoch() {
  const std::scoped_lock lock(mutex_);
  return leaving_ ? epoch_ + 1 : epoch_;
}

void Engine::post(const std::shared_ptr<Operation>& operation) {
  require_caller(*operation);
  const std::scoped_lock lock(mutex_);
  enqueue(operation);
}

void Engine::enqueue(const std::shared_ptr<Operation>& operation) {
  if (unobserved_) {
    // posted in the belief that all is well: it belongs to what has failed
    operation->error = unobserved_;
    operation->done = true;
    return;
  }
  operation->epoch = leaving_ ? epoch_ + 1 : epoch_;
  operation->note_merges(merges_);
  queue_.push_back(operation);
}

void Engine::post_async(const std::shared_ptr<Operation>& operation) {
  if (!transport_->has_free_threads()) {  // advances inside wait and test
    post(operation);
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    start_progress_thread();  // first, since it can fail
  }
  post(operation);
  work_.notify_one();
}

void Engine::start_progress_thread() {
  if (progress_.joinable()) return;
  progress_ = std::jthread([this](const std::stop_token& stop) { run_progress(stop); });
}

void Engine::post_pair(const std::shared_ptr<PairOperation>& operation, Progress progress) {
  require_caller(*operation);
  {
    const std::scoped_lock lock(mutex_);
    if (progress == Progress::by_thread && transport_->has_free_threads()) start_progress_thread();
    pairs_.post(operation);
  }
  work_.notify_one();
}

void Engine::refuse_pair(PairOperation::Role role, int rank, const std::string& text) {
  if (is_forked_copy()) return;
  const std::scoped_lock lock(mutex_);
  pairs_.refuse(role, rank,
                {Code::unavailable,
                 fmt::format("rank {}: {}", transport_->rank(), text),
                 {transport_->rank(), -1, role == PairOperation::Role::send ? "send" : "recv", -1}});
}

bool Engine::wait(Operation& operation, std::optional<Clock::time_point> until) {
  Backoff backoff(spins_);
  while (!test(operation)) {
    if (until && Clock::now() >= *until) return false;
    backoff.pause();
  }
  return true;
}

bool Engine::wait_for_streams(Operation& operation) {
  Backoff backoff(spins_);
  while (!test(operation)) {
    {
      const std::scoped_lock lock(mutex_);
      if (operation.is_on_streams()) return false;
    }
    backoff.pause();
  }
  return true;
}

bool Engine::test(Operation& operation) {
  if (is_forked_copy()) require_caller(operation);
  const std::scoped_lock lock(mutex_);
  if (!operation.done) drive();
  if (!operation.done) return false;
  if (operation.error) {
    if (operation.error == unobserved_) unobserved_ = nullptr;
    throw_error_of(operation);
  }
  return true;
}

bool Engine::await_end(Operation& operation) noexcept {
  if (is_forked_copy()) return true;  // the parent's operation writes to the parent's memory
  try {
    const bool may_drive = any_thread_may_call_ || transport_->this_thread_may_call();
    const auto patience = operation.fail_after.count() > 0 ? operation.fail_after : options_.fail_after;
    const Clock::time_point until = Clock::now() + patience + std::chrono::seconds(1);
    Backoff backoff(spins_);
    do {
      {
        const std::scoped_lock lock(mutex_);
        if (!operation.done && may_drive) drive();
        if (operation.done) return true;
      }
      backoff.pause();
    } while (Clock::now() < until);
  } catch (const std::exception& error) {
    log_warning("{}: {}", options_.name, error.what());
  }
  return false;
}

void Engine::tell_whereabouts(const std::string& what) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !queue_.empty() || !transport_->is_alive()) return;
  try {
    control_.send_whereabouts(epoch_, sequence_, what);
  } catch (const std::exception& error) {
    log_warning("other ranks could not be told where this one is: {}", error.what());
  }
}

std::unique_ptr<Transport> Engine::split_transport(std::span<const int> members) {
  const std::scoped_lock lock(mutex_);
  return transport_->split(members);
}

std::unique_ptr<Transport> Engine::duplicate_transport() {
  const std::scoped_lock lock(mutex_);
  return transport_->duplicate();
}

}  // namespace lockstep::detail
