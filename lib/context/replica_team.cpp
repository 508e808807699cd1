// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "context/replica_team.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/processor.hpp"
#include "base/start_thread.hpp"
#include "context/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds default_fail_after = std::chrono::seconds(300);

bool are_of_several_kinds(const std::vector<Device>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](Device device) { return device.kind != devices.front().kind; });
}

std::string numbered(const std::string& name) {
  static std::atomic<int> made{0};
  return fmt::format("{} #{}", name, ++made);
}

/// Number of threads that share a parallel loop; 1 if the processors of this rank run more replicas than they are.
int threads_for_loops(const Communicator& communicator) {
  const int replicas = CommunicatorAccess::replicas_on_same_processors(communicator);
  return replicas <= detail::allowed_cpus().count ? communicator.local_replicas() : 1;
}

}  // namespace

ReplicaTeam::ReplicaTeam(std::string name, Communicator communicator, std::vector<Device> devices, Kind kind)
    : name_(std::move(name)),
      communicator_(std::move(communicator)),
      devices_(std::move(devices)),
      kind_(kind),
      numbered_name_(kind_ == Kind::is_default ? name_ : numbered(name_)),
      replicas_(communicator_.layout().replicas()),
      first_replica_id_(communicator_.layout().first(communicator_.rank())),
      fail_after_(communicator_.options().fail_after.value_or(default_fail_after)),
      devices_are_mixed_(are_of_several_kinds(devices_)),
      waiter_(std::make_shared<Waiter>(
          WaitPolicy::for_threads(CommunicatorAccess::replicas_on_same_processors(communicator_)))),
      parallel_loop_(std::make_shared<detail::ParallelLoop>(threads_for_loops(communicator_),
                                                            [waiter = waiter_] { waiter->wake(); })),
      seen_(devices_.size()) {
  LOCKSTEP_CHECK(communicator_.local_replicas() == local_replicas());
  if (parallel_loop_->threads() > 1) CommunicatorAccess::share_loops(communicator_, parallel_loop_);
  step_ = std::make_unique<Step>(*this);
  try {
    start_threads();
  } catch (...) {
    stop_threads();
    throw;
  }
}

ReplicaTeam::~ReplicaTeam() { stop_threads(); }

void ReplicaTeam::start_threads() {
  threads_.reserve(devices_.size());  // so that no allocation follows the start of a thread
  for (int i = 1; i < local_replicas(); ++i) {
    const std::string thread = fmt::format("{}: the thread of local replica {} of {}", name_, i, local_replicas());
    threads_.push_back(detail::start_thread({thread, "use fewer replicas"}, [this, i] { serve(i); }));
  }
}

void ReplicaTeam::stop_threads() noexcept {
  stopping_.store(true);
  waiter_->wake();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<ReplicaTeam> ReplicaTeam::make_default() {
  return std::make_shared<ReplicaTeam>("the default strategy", self_communicator({.name = "default strategy"}),
                                       std::vector<Device>{{}}, Kind::is_default);
}

std::string ReplicaTeam::title() const {
  if (is_default()) return name_;
  constexpr std::size_t shown = 4;
  std::string text = numbered_name_ + " on ";
  for (std::size_t i = 0; i < devices_.size() && i < shown; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(devices_[i]));
  return devices_.size() > shown ? fmt::format("{}, ... ({} devices)", text, devices_.size()) : text;
}

ReplicaContext& ReplicaTeam::first_replica() { return step_->replica(0); }

void ReplicaTeam::warn_of_ignored(const RunOptions& options) {
  const bool ignored = !options.experimental_enable_dynamic_batch_size ||
                       options.experimental_bucketizing_dynamic_shape || options.experimental_xla_options.has_value();
  if (!ignored || has_warned_) return;
  has_warned_ = true;
  detail::log_warning(
      "run: experimental_enable_dynamic_batch_size, experimental_bucketizing_dynamic_shape and "
      "experimental_xla_options are for TPUs; {} ignores them",
      name_);
}

void ReplicaTeam::run(Strategy* strategy, ReplicaTask task, RunMode mode) {
  detail::require_cross_replica(*this, "run");
  const ThreadContext& context = thread_context();
  if (context.step != nullptr) {  // called in a merge function of this strategy
    Step nested(*this);
    run_step(nested, strategy, task, mode);
    return;
  }
  if (running_.exchange(true)) {
    detail::throw_error(Code::failed_precondition,
                        "run: another thread is inside run of this strategy; call it from one thread at a time");
  }
  struct Release {
    std::atomic<bool>& running;
    ~Release() { running.store(false); }
  } const release{running_};
  forget_propagated();
  run_step(*step_, strategy, task, mode);
}

void ReplicaTeam::run_step(Step& step, Strategy* strategy, ReplicaTask task, RunMode mode) {
  ++statistics_.runs;
  step.begin(strategy, task, mode);
  if (!threads_.empty()) {
    current_ = &step;
    published_.fetch_add(1);
    waiter_->wake();
  }
  step.run_replica(0);
  step.wait_for_all();
  if (const std::exception_ptr failure = step.failure()) {
    detail::propagate(communicator_, [&] { std::rethrow_exception(failure); });
  }
}

void ReplicaTeam::run_published(int local) {
  ++seen_[static_cast<std::size_t>(local)].count;
  current_->run_replica(local);
}

void ReplicaTeam::serve(int local) {
  const auto ready = [this, local] { return has_published(local) || stopping_.load() || parallel_loop_->is_open(); };
  for (;;) {
    // no deadline: the next step may begin at any time
    if (!waiter_->wait_until(ready, Waiter::Clock::now() + std::chrono::hours(1))) continue;
    if (stopping_.load()) return;
    has_published(local) ? run_published(local) : parallel_loop_->help();
  }
}

}  // namespace lockstep
