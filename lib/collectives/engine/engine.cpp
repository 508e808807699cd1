// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/engine.hpp"

#include "base/check.hpp"
#include "base/foreign_exception.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/mark.hpp"
#include "base/pause.hpp"
#include "base/processor.hpp"
#include "base/start_thread.hpp"
#include "base/time_stamp.hpp"
#include "collectives/call/backoff.hpp"
#include "collectives/engine/long_wait.hpp"
#include "collectives/engine/message_agreement.hpp"
#include "collectives/engine/node_agreement.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

namespace lockstep::detail {
namespace {

/// A rank that waits tells the ranks that wait for it in another operation about its own wait: first after
/// `unanswered_time`, then once per `answer_interval`.
constexpr std::chrono::milliseconds unanswered_time(200);
constexpr std::chrono::milliseconds answer_interval(50);

/// Waits that end without `drive`, before one that calls it. A wait in which the thread has yielded counts for more.
constexpr unsigned waits_before_drive = 16;
constexpr unsigned waits_of_a_yield = 3;

/// A rank that begins an operation longer than this time after the previous one may be late: another rank may have
/// aborted the operation.
constexpr std::chrono::milliseconds time_of_late_ranks(1);

/// Returns a high number if each replica on the processors of this rank can have a processor of its own.
int spins_before_yield(const Transport& transport, int local_replicas) {
  const int ranks = static_cast<int>(transport.ranks_on_same_processors().size());
  return ranks * local_replicas <= allowed_cpus().count ? Backoff::own_core_spins : Backoff::shared_core_spins;
}

std::unique_ptr<Agreement> make_agreement(Transport& transport, ControlChannel& control) {
  if (NodeGroup* const group = transport.node_group()) return std::make_unique<NodeAgreement>(*group, true);
  return std::make_unique<MessageAgreement>(control, transport.local_group(), transport.rank(),
                                            transport.node_leaders());
}

}  // namespace

Engine::Engine(std::shared_ptr<Transport> transport, EngineOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      spins_(spins_before_yield(*transport_, options_.local_replicas)),
      any_thread_may_call_(transport_->has_free_threads()),
      has_node_group_(transport_->node_group() != nullptr),
      fork_depth_(fork_depth()),
      control_(*transport_),
      agreement_(make_agreement(*transport_, control_)),
      recorder_(options_.name, *transport_, options_.recorder),
      pairs_(*transport_, control_, recorder_, {options_.warn_after, options_.fail_after, options_.name}),
      measures_(recorder_.measures()),
      queue_(options_.name, recorder_),
      watchdog_(*transport_, control_, *agreement_, queue_,
                {options_.warn_after, options_.fail_after, options_.fail_after_total}),
      epoch_(*transport_, control_, *agreement_, queue_, watchdog_, options_.most_epochs),
      presence_(*transport_, control_, *agreement_, queue_),
      leaving_(*transport_, control_, *agreement_, queue_, epoch_),
      exceptions_(std::uncaught_exceptions()) {
  if (NodeGroup* const group = transport_->sharing_group())
    group->own_control_block().process.value.store(static_cast<std::uint64_t>(getpid()), std::memory_order_relaxed);
  options_.family->join(*this);
  try {
    join_job(*this);
  } catch (...) {
    leave_job(*this);
    options_.family->leave(*this);
    throw;
  }
}

Engine::~Engine() {
  if (is_forked_copy()) {
    // the communicator, the threads and the shared memory belong to the parent process: these copies are leaked
    [[maybe_unused]] const auto* const of_the_parent = new std::shared_ptr<Transport>(std::move(transport_));
    [[maybe_unused]] const auto* const with_its_thread = new std::shared_ptr<Family>(options_.family);
    [[maybe_unused]] const auto* const waits_in_the_parent = callbacks_.release();
    return;
  }
  leave_job(*this);
  options_.family->leave(*this);
  if (callbacks_ != nullptr) {  // a callback that runs may wait for operations that the progress thread drives
    callbacks_->thread.request_stop();
    callbacks_->thread.join();
  }
  options_.family->thread().leave(*this);
  finish_operations();
  const MutexLock lock(mutex_);
  depart(Departure::orderly);
}

void Engine::finish_operations() {
  Backoff backoff(spins_);
  while (true) {
    std::list<Continuation> done;
    {
      const MutexLock lock(mutex_);
      const bool may_drive = transport_->is_alive() || !continuations_.empty();  // without MPI, the operations fail
      const bool has_work = (!queue_.is_empty() || !pairs_.is_empty()) && may_drive;
      if (has_work) drive();
      done = take_continuations();
      if (!has_work && done.empty()) break;
    }
    call(std::move(done));
    backoff.pause();
  }
}

void Engine::end(Engine* engine) noexcept {
  if (engine->is_forked_copy() || engine->this_thread_may_call()) {
    delete engine;
  } else {
    engine->leave_to_main_thread();
  }
}

/// MPI_Finalize, which the main thread calls, finds this engine in the list of the members of the job. Ranks that share
/// memory with this rank see at once that it has departed, unless operations are pending.
void Engine::leave_to_main_thread() noexcept {
  const MutexLock lock(mutex_);
  is_left_ = true;
  log_warning(
      "{}: its last handle was destroyed on a thread that may not call MPI, so the communicator ends in MPI_Finalize: "
      "MPI provides less than MPI_THREAD_SERIALIZED; destroy communicators on the main thread, or initialize MPI with "
      "MPI_THREAD_SERIALIZED",
      options_.name);
  if (queue_.is_empty() && pairs_.is_empty()) depart(Departure::orderly);
}

/// If an exception that the other ranks have already received makes this rank depart, the exception is not sent again.
void Engine::depart(Departure how) noexcept {
  const bool is_known = thrown_at_ == std::pair(epoch_.number(), queue_.sequence());
  leaving_.depart(std::uncaught_exceptions() > exceptions_ && !is_known ? Departure::by_exception : how);
}

bool Engine::lock_in_time() noexcept {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(500);
  while (!mutex_.try_lock()) {
    if (Clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

void Engine::on_abort(const std::string& text) noexcept {
  if (is_forked_copy() || !lock_in_time()) return;
  leaving_.end_for_ever(text);
  mutex_.unlock();
}

void Engine::on_finalize() noexcept {
  if (is_forked_copy() || !lock_in_time()) return;
  const bool is_left = is_left_;
  mutex_.unlock();
  if (is_left) finish_operations();
  if (!lock_in_time()) return;
  depart(is_left ? Departure::orderly : Departure::by_finalize);
  transport_->close();
  mutex_.unlock();
}

// ---- what callers do

bool Engine::is_forked_copy() const noexcept { return fork_depth() != fork_depth_; }

bool Engine::this_thread_may_call() const { return any_thread_may_call_ || transport_->this_thread_may_call(); }

void Engine::require_caller(const Operation& operation) const {
  if (is_forked_copy()) {
    throw_error(Code::failed_precondition,
                "{} was called in a child process made by fork(); {} belongs to the parent, and MPI does not work in a "
                "child",
                operation_name(operation.descriptor()), options_.name);
  }
  if (this_thread_may_call()) return;
  throw_error(Code::failed_precondition,
              "{}: this thread may not call MPI: MPI provides less than MPI_THREAD_SERIALIZED, so only the main thread "
              "may",
              operation_name(operation.descriptor()));
}

void Engine::require_waiter(const Operation& operation) {
  if (!may_wait(operation)) require_caller(operation);
}

bool Engine::may_wait(const Operation& operation) {
  if (any_thread_may_call_ || is_forked_copy() || this_thread_may_call()) return true;
  const MutexLock lock(mutex_);
  return operation.is_done();
}

void Engine::keep_until_done(std::shared_ptr<Operation> operation, std::shared_ptr<void> state) {
  const MutexLock lock(mutex_);
  kept_.push_back({std::move(operation), std::move(state)});
  if (std::exchange(has_warned_of_thread_, true)) return;
  log_warning(
      "{}: a request was destroyed before its {} was complete, on a thread that may not call MPI: MPI provides less "
      "than MPI_THREAD_SERIALIZED, so only the main thread may; the operation continues in later calls of the main "
      "thread, and its tensors must stay allocated until then",
      options_.name, operation_name(kept_.back().operation->descriptor()));
}

void Engine::release_kept() {
  std::erase_if(kept_, [this](const Kept& kept) LOCKSTEP_REQUIRES(mutex_) {
    if (!kept.operation->is_done()) return false;
    if (kept.operation->error() == nullptr) return true;
    try {
      throw_error_of(*kept.operation);
    } catch (const std::exception& error) {
      log_warning("a request that was destroyed without wait() failed: {}", error.what());
    }
    return true;
  });
}

/// Measures a wait of the calling thread, for LOCKSTEP_TRACE.
class Engine::MeasuredWait {
 public:
  /// `begin`: time stamp of the begin of the wait.
  MeasuredWait(Engine& engine, Operation& operation, std::uint64_t begin)
      : engine_(engine), operation_(operation), begin_(engine.measures_ ? begin : 0) {}
  MeasuredWait(const MeasuredWait&) = delete;
  MeasuredWait& operator=(const MeasuredWait&) = delete;
  ~MeasuredWait() {
    if (begin_ == 0 || engine_.is_forked_copy()) return;
    const MutexLock lock(engine_.mutex_);
    engine_.recorder_.measure_wait(operation_, begin_);
  }

 private:
  Engine& engine_;
  Operation& operation_;
  const std::uint64_t begin_;  // 0: waits are not measured
};

/// Counts the calling thread as a thread that waits, and so drives the operations.
class Engine::CountedWait {
 public:
  explicit CountedWait(Engine& engine) noexcept : engine_(engine) {
    engine_.waiting_callers_.fetch_add(1, std::memory_order_relaxed);
  }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;
  ~CountedWait() {
    const bool is_last = engine_.waiting_callers_.fetch_sub(1) == 1;
    if (is_last && engine_.is_busy_.load() && !engine_.is_forked_copy()) engine_.options_.family->thread().wake();
  }

 private:
  Engine& engine_;
};

void Engine::run(const std::shared_ptr<Operation>& operation) {
  require_caller(*operation);
  const std::uint64_t begin = measures_ ? time_stamp() : 0;
  if (!run_at_once(operation)) {
    wait_since(begin, *operation);
  } else if (operation->error() != nullptr) {
    const MutexLock lock(mutex_);
    throw_error_of(*operation);
  }
}

void Engine::run_recovery(const std::function<std::shared_ptr<Operation>()>& next_try) {
  const Clock::time_point until = Clock::now() + options_.fail_after;
  for (;;) {
    const std::shared_ptr<Operation> recovery = next_try();
    try {
      return run(recovery);
    } catch (const Error& error) {
      const MutexLock lock(mutex_);
      if (recovery->error() == nullptr || recovery->error() != epoch_.ended_before_recovery() || Clock::now() > until)
        throw;
      reached(Mark::recovery_again);
      log_warning("{}: recover begins again, because another rank has failed meanwhile: {}", options_.name,
                  error.text());
    }
  }
}

void Engine::throw_error_of(const Operation& operation) {
  knows_failures_.store(true, std::memory_order_relaxed);
  thrown_at_ = {epoch_.number(), queue_.sequence()};
  epoch_.throw_error_of(operation);
}

void Engine::count_merge(std::uint64_t run) {
  const MutexLock lock(mutex_);
  queue_.count_merge(run);
}

CallerArguments Engine::add_arguments(std::string_view arguments) {
  const MutexLock lock(mutex_);
  return queue_.add_arguments(arguments);
}

void Engine::restore_arguments(const CallerArguments& arguments) {
  const MutexLock lock(mutex_);
  queue_.restore_arguments(arguments);
}

std::uint64_t Engine::next_epoch() {
  const MutexLock lock(mutex_);
  return epoch_.number_of_next_post();
}

std::int64_t Engine::completed() {
  const MutexLock lock(mutex_);
  return queue_.completed();
}

void Engine::acknowledge_failure() {
  const MutexLock lock(mutex_);
  epoch_.acknowledge();
}

void Engine::ignore_positions() {
  const MutexLock lock(mutex_);
  queue_.ignore_positions();
}

void Engine::continue_at(std::int64_t completed) {
  const MutexLock lock(mutex_);
  queue_.continue_at(completed);
}

void Engine::post(const std::shared_ptr<Operation>& operation) {
  require_caller(*operation);
  const MutexLock lock(mutex_);
  enqueue(operation);
}

void Engine::enqueue(const std::shared_ptr<Operation>& operation) {
  if (epoch_.unobserved() != nullptr) {  // the caller does not know of this failure: the operation fails with it
    reached(Mark::posted_after_failure);
    if (!epoch_.has_ended_unobserved()) queue_.count_one_refused();
    operation->finish(epoch_.unobserved());
    return;
  }
  queue_.enter(*operation, epoch_.number_of_next_post());
  queue_.push(operation);
  wake_waiting_threads();
}

void Engine::post_async(const std::shared_ptr<Operation>& operation) {
  if (!transport_->has_free_threads()) {  // the operation advances only inside wait and test
    post(operation);
    return;
  }
  require_caller(*operation);
  {
    const MutexLock lock(mutex_);
    use_thread();  // before the post, since the start can throw
    enqueue(operation);
  }
  options_.family->thread().wake();
}

/// Wakes the threads of this rank that sleep in a wait: another thread has given them work. A sleep that the transport
/// ends cannot be ended here: the work begins at once, and goes on when the sleep is over.
void Engine::wake_waiting_threads() {
  if (waiting_callers_.load(std::memory_order_relaxed) == 0) return;
  if (has_node_group_) {
    if (transport_->is_alive()) transport_->node_group()->wake_own();
  } else if (transport_->can_sleep() && this_thread_may_call()) {
    drive();
  }
}

/// From now on, the progress thread drives the operations while no other thread waits.
void Engine::use_thread() {
  if (!has_thread_) options_.family->thread().start(*this, options_.name);
  has_thread_ = true;
  is_busy_.store(true);
}

AwaitedMessage Engine::post_pair(std::shared_ptr<PairOperation> operation, Progress progress) {
  require_caller(*operation);
  {
    const MutexLock lock(mutex_);
    if (progress == Progress::by_waiting) {
      const PairOperation& posted = *operation;
      pairs_.post(std::move(operation));
      return pairs_.awaited(posted);
    }
    if (transport_->has_free_threads()) use_thread();
    pairs_.post(std::move(operation));
    wake_waiting_threads();
  }
  options_.family->thread().wake();
  return {};
}

void Engine::refuse_pair(PairOperation::Role role, int rank, const std::string& text,
                         const std::source_location& where) {
  if (is_forked_copy() || !this_thread_may_call()) return;
  const MutexLock lock(mutex_);
  // first, so that later calls of both ranks match even if the text cannot be allocated
  const std::int64_t number = pairs_.skip(role, rank);
  pairs_.refuse(role, rank, number,
                {Code::unavailable,
                 fmt::format("rank {} failed{}: {}", transport_->rank(), describe(where), text),
                 {transport_->rank(), -1, role == PairOperation::Role::send ? "send" : "recv", -1}});
}

bool Engine::wait(Operation& operation, std::optional<Clock::time_point> until) {
  return wait_since(measures_ ? time_stamp() : 0, operation, until);
}

void Engine::wait(Operation& operation, const AwaitedMessage& awaited) {
  static_cast<void>(wait_since(measures_ ? time_stamp() : 0, operation, std::nullopt, awaited));
}

/// As `wait`; the trace shows that this thread has waited since the time stamp `begin`.
bool Engine::wait_since(std::uint64_t begin, Operation& operation, std::optional<Clock::time_point> until,
                        AwaitedMessage awaited) {
  const MeasuredWait measured(*this, operation, begin);
  const CountedWait counted(*this);
  if (!until) {
    const bool is_message = operation.descriptor().traits().is_message();
    if (is_message ? await_message(static_cast<const PairOperation&>(operation), awaited) : await_collective(operation))
      return true;
  }
  // a wait with a limit may end between two pauses
  LongWait pauses(!until && has_node_group_ ? transport_->node_group() : nullptr,
                  !until && !has_node_group_ && transport_->can_sleep() ? transport_.get() : nullptr, spins_);
  while (!test(operation)) {
    if (until && Clock::now() >= *until) return false;
    if (pauses.is_long()) {
      const MutexLock lock(mutex_);
      pauses.prepare(has_node_group_ ? waits_for_other_ranks() : waits_alone());
    }
    pauses.pause();
  }
  return true;
}

/// Whether this rank can make no progress before another rank of its node arrives at the head of the queue, or does its
/// part of a message. In both cases the other rank wakes the sleeping threads of this rank. Without a progress thread,
/// false also if operations of other communicators are pending, since this thread must drive them.
bool Engine::waits_for_other_ranks() {
  if (!transport_->is_alive() || untold_ || !kept_.empty() || !epoch_.is_sound() || control_.has_pair_messages())
    return false;
  if (!transport_->all_posted_left()) return false;
  if (!transport_->has_free_threads() && options_.family->has_work_beside(*this)) return false;
  const bool awaits_head = queue_.is_empty() || (!queue_.head().is_agreed() && agreement_->is_shown());
  return awaits_head && pairs_.waits_for_other_ranks();
}

/// Whether no other thread of this process may take what comes for this one, or has operations that this one drives.
bool Engine::waits_alone() {
  return transport_->is_alive() && waiting_callers_.load(std::memory_order_relaxed) == 1 && callbacks_ == nullptr &&
         !options_.family->has_work_beside(*this);
}

/// Waits for a message in shared memory by polling its slot, without the lock, the clock and control messages. Returns
/// true if the message is complete without an error; false if the caller must wait in the usual way.
bool Engine::await_message(const PairOperation& message, AwaitedMessage awaited) {
  if (is_forked_copy()) return false;
  if (awaited.state == nullptr) {
    const MutexLock lock(mutex_);
    if (completes_message(message)) return true;
    awaited = pairs_.awaited(message);
  }
  if (awaited.state == nullptr) return false;
  Backoff backoff(spins_);
  while (!awaited.has_come()) {
    if (!backoff.pause_briefly(Backoff::few_yields)) return false;
  }
  const MutexLock lock(mutex_);
  if (backoff.has_yielded()) waits_at_once_ += waits_of_a_yield;  // other operations have waited, too
  return completes_message(message);
}

/// Whether `message` is complete without an error, after the other rank has done its part in shared memory.
bool Engine::completes_message(const PairOperation& message) {
  if (!transport_->is_alive()) return false;
  if (!message.is_done()) make_progress_on_pairs([&]() LOCKSTEP_REQUIRES(mutex_) { pairs_.advance_at_once(message); });
  if (!message.is_done() || message.error() != nullptr) return false;
  wake_callbacks();
  drive_sometimes();
  return true;
}

/// Advances the queue up to `operation` without the clock and control messages, which are not necessary as long as all
/// ranks arrive in time. The ranks agree in shared memory; data that does not move there is left to the usual wait.
/// Returns true if `operation` is complete without an error; false if the caller must wait in the usual way.
bool Engine::await_collective(const Operation& operation) {
  if (!has_node_group_ || is_forked_copy()) return false;
  const MutexLock lock(mutex_);
  if (!transport_->is_alive()) return false;
  Backoff backoff(spins_);
  while (!operation.is_done()) {
    if (queue_.is_empty() || !epoch_.is_sound() || untold_) return false;
    try {
      if (advance_head()) continue;
    } catch (const std::exception& error) {
      stop_head(error);
      return false;
    }
    const Operation& head = queue_.head();
    if ((head.is_agreed() && head.uses_transfers()) || !backoff.spin()) return false;
  }
  if (operation.error() != nullptr) return false;
  if (!kept_.empty()) release_kept();
  wake_callbacks();
  drive_sometimes();
  return true;
}

/// While a thread waits, the progress thread does not drive the engine. Therefore every 16th wait that has not driven
/// it does so, so that other operations make progress.
void Engine::drive_sometimes() {
  if (++waits_at_once_ < waits_before_drive || !this_thread_may_call()) return;
  waits_at_once_ = 0;
  drive();
}

bool Engine::wait_for_streams(Operation& operation) {
  const MeasuredWait measured(*this, operation, measures_ ? time_stamp() : 0);
  Backoff backoff(spins_);
  while (!test(operation)) {
    {
      const MutexLock lock(mutex_);
      if (operation.on_streams() != nullptr) return false;
    }
    backoff.pause();
  }
  return true;
}

bool Engine::test(Operation& operation) {
  if (is_forked_copy()) require_caller(operation);
  const MutexLock lock(mutex_);
  if (!operation.is_done()) drive();
  if (!operation.is_done()) {
    if (operation.descriptor().traits().pattern == Pattern::message) answer_in_message(operation);
    return false;
  }
  if (operation.error() != nullptr) throw_error_of(operation);
  return true;
}

/// If this threw, the caller would leave an operation behind that still uses the caller's memory.
void Engine::answer_in_message(const Operation& operation) noexcept {
  const Clock::time_point now = Clock::now();
  if (!queue_.is_empty() || now - family_answered_ <= answer_interval) return;
  family_answered_ = now;
  try {
    const auto wait = pairs_.wait_in(operation, now - unanswered_time);
    if (!wait) return;
    answer_locked(*wait);
    options_.family->answer_for(*this, *wait);
  } catch (const std::exception& error) {
    log_warning("{}: cannot report to other ranks which message this rank waits for: {}", options_.name, error.what());
  }
}

void Engine::when_done(const std::shared_ptr<Operation>& operation, std::function<void(const Error*)> callback) {
  require_caller(*operation);
  if (!transport_->has_free_threads()) {
    throw_error(Code::failed_precondition,
                "{}: a completion callback needs MPI_THREAD_MULTIPLE, because a thread of lockstep calls it",
                operation_name(operation->descriptor()));
  }
  const MutexLock lock(mutex_);
  if (callbacks_ == nullptr) {
    auto callbacks = std::make_unique<Callbacks>();
    const std::string thread = options_.name + ": the thread that calls callbacks";
    callbacks->thread = start_thread<std::jthread>(
        {thread, "wait for requests"},
        [this, &due = callbacks->are_due](const std::stop_token& stop) { run_callbacks(due, stop); });
    callbacks_ = std::move(callbacks);
  }
  continuations_.push_back({operation, std::move(callback)});
  if (operation->is_done()) {
    is_callback_due_ = true;
  } else {
    operation->tell_end(is_callback_due_);
  }
  wake_callbacks();
}

/// Removes the callbacks of the operations that are done.
std::list<Engine::Continuation> Engine::take_continuations() noexcept {
  is_callback_due_ = false;
  std::list<Continuation> done;
  for (auto one = continuations_.begin(); one != continuations_.end();) {
    const auto next = std::next(one);
    if (one->operation->is_done()) {
      if (one->operation->error() != nullptr) {
        try {
          throw_error_of(*one->operation);
        } catch (const Error& error) {
          try {
            one->error = error;
          } catch (const std::bad_alloc&) {  // the callback gets the error of the operation itself
          }
        } catch (const std::bad_alloc&) {}
      }
      done.splice(done.end(), continuations_, one);
    }
    one = next;
  }
  return done;
}

void Engine::call(std::list<Continuation> continuations) noexcept {
  for (Continuation& one : continuations) {
    one.callback(one.error ? &*one.error : one.operation->error().get());
    one.callback = nullptr;  // what a callback owns is destroyed before the next callback is called
  }
}

bool Engine::await_end(Operation& operation) noexcept {
  if (is_forked_copy()) return true;  // the operation belongs to the parent process
  try {
    const bool may_drive = this_thread_may_call();
    const auto timeout = operation.fail_after(options_.fail_after);
    const Clock::time_point until = Clock::now() + timeout + std::chrono::seconds(1);
    Backoff backoff(spins_);
    do {
      {
        const MutexLock lock(mutex_);
        if (!operation.is_done() && may_drive) drive();
        if (operation.is_done()) return true;
      }
      backoff.pause();
    } while (Clock::now() < until);
  } catch (const std::exception& error) {
    log_warning("{}: {}", options_.name, error.what());
  }
  return false;
}

void Engine::answer(const WaitElsewhere& wait) noexcept {
  if (is_forked_copy() || !this_thread_may_call() || !mutex_.try_lock()) return;
  answer_locked(wait);
  mutex_.unlock();
}

bool Engine::has_work() noexcept {
  if (!mutex_.try_lock()) return true;
  const bool has_work = !queue_.is_empty() || !pairs_.is_empty();
  mutex_.unlock();
  return has_work;
}

void Engine::answer_locked(const WaitElsewhere& wait) noexcept {
  try {
    if (!transport_->is_alive()) return;
    control_.poll();
    if (queue_.is_empty()) control_.send_status(epoch_.number(), queue_.sequence(), wait);
  } catch (const std::exception& error) {
    log_warning("{}: cannot report to other ranks which operation this rank waits in: {}", options_.name, error.what());
  }
}

std::unique_ptr<NewGroup> Engine::begin_group() {
  const MutexLock lock(mutex_);
  return transport_->begin_group();
}

// ---- progress of the head of the queue: the ranks agree on it, then a waiting thread advances it

/// If the queue is empty: executes `operation` in a short loop that does the work of `drive`, but does not check
/// deadlines, and looks for failures only if the agreement needs messages. These checks are not necessary as long as
/// all ranks arrive in time. Returns whether the loop has completed `operation`. If not, `operation` has been put into
/// the queue in its present state, or has failed.
bool Engine::run_at_once(const std::shared_ptr<Operation>& operation) {
  const MutexLock lock(mutex_);
  const bool may_run = transport_->is_alive() && (has_node_group_ || pairs_.is_empty());
  if (!may_run || !queue_.is_empty() || !epoch_.is_sound()) {
    enqueue(operation);
    return false;
  }
  queue_.enter(*operation, epoch_.number());
  queue_.place(*operation);
  Backoff backoff(spins_);
  try {
    bool has_come = false;
    if (!has_node_group_) receive_if_late();
    if (has_node_group_ || !is_aborted()) {
      agreement_->open(epoch_.number(), queue_.sequence(), *operation);
      do {
        if (!has_node_group_ && agreement_->awaits_messages() && control_.poll_one() && is_aborted()) {
          reached(Mark::abort_during_agreement);
          break;
        }
        has_come = agreement_->advance();
      } while (!has_come && backoff.pause_briefly());
    }
    if (has_come && agreement_->all_agree()) {
      agreement_->close();
      operation->agree();
      recorder_.agree_at_once(*operation);
      operation->start(*transport_, workspace_);
      do {
        if (!operation->advance(*transport_, workspace_)) continue;
        operation->finish(error_of(*operation));
        queue_.count_one_done(*operation);
        return true;
      } while (backoff.pause_briefly());
    }
    queue_.push(operation);
  } catch (const std::exception& error) {
    queue_.push(operation);
    stop_head(error);
  }
  return false;
}

/// If this rank is late, the abort of another rank may have arrived after the headers, so this function receives all
/// messages. Otherwise, `run_at_once` receives one message at a time: between hosts, each check for a further message
/// takes a system call.
void Engine::receive_if_late() {
  const Clock::time_point now = Clock::now();
  if (now - std::exchange(last_at_once_, now) > time_of_late_ranks) control_.poll();
}

/// Whether a received message aborts the next operation.
bool Engine::is_aborted() const { return control_.abort_record(epoch_.number(), queue_.sequence()) != nullptr; }

bool Engine::needs_thread() const noexcept { return is_busy_.load() && waiting_callers_.load() == 0; }

void Engine::drive_by_thread() {
  if (!mutex_.try_lock()) return;  // the thread that holds it does the same work
  if (waiting_callers_.load(std::memory_order_relaxed) == 0) {
    drive();  // also wakes callbacks of operations that have ended outside of it
    if (queue_.is_empty() && pairs_.is_empty()) is_busy_.store(false, std::memory_order_relaxed);
  }
  mutex_.unlock();
}

void Engine::run_callbacks(std::condition_variable_any& are_due, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::list<Continuation> done;
    {
      MutexLock lock(mutex_);
      are_due.wait(lock, stop, [this]() LOCKSTEP_REQUIRES(mutex_) { return is_callback_due_; });
      done = take_continuations();
    }
    call(std::move(done));
  }
}

/// Called after operations may have ended.
void Engine::wake_callbacks() noexcept {
  if (is_callback_due_ && callbacks_ != nullptr) callbacks_->are_due.notify_one();
}

/// Fails all messages if `make_progress` throws, unless it lacks memory and may go on later.
template <class Function>
void Engine::make_progress_on_pairs(const Function& make_progress) {
  try {
    make_progress();
  } catch (const Error& error) {
    pairs_.fail_all(error.code(), error.text());
  } catch (const std::bad_alloc&) {  // nothing is lost: the next call goes on
    if (pairs_.lacks_memory_for_long()) pairs_.fail_all(Code::unavailable, "out of memory");
  } catch (const std::exception& error) {
    pairs_.fail_all(Code::internal, error.what());
  }
}

void Engine::drive_pairs() {
  if (!transport_->is_alive()) {
    pairs_.fail_all(Code::failed_precondition, "MPI was finalized before the message was received");
    return;
  }
  make_progress_on_pairs([this]() LOCKSTEP_REQUIRES(mutex_) {
    control_.poll();
    pairs_.drive(workspace_);
    const Clock::time_point now = Clock::now();
    presence_.look(now);
    for (const Presence::Gone& one : presence_.gone()) {
      if (now - one.since > Presence::message_time) pairs_.fail_gone(one.rank, one.has_left, one.text);
    }
  });
}

void Engine::drive() {
  if (!pairs_.is_empty() || control_.has_pair_messages() || pairs_.has_untold()) drive_pairs();
  const bool has_nothing_to_end = queue_.is_empty() && epoch_.number_of_next_post() == epoch_.number();
  if (untold_ && (untold_->epoch != epoch_.number() || has_nothing_to_end)) untold_.reset();
  if (untold_) {
    stop_head(std::bad_alloc());
  } else if (!queue_.is_empty()) {
    try {
      drive_head();
    } catch (const std::exception& error) {
      stop_head(error);
    }
  }
  if (!kept_.empty()) release_kept();
  wake_callbacks();
}

/// Messages can no longer be sent: this rank alone ends the epoch.
void Engine::end_without_mpi() {
  epoch_.end({Code::failed_precondition, "MPI was finalized before the operation was complete",
              queue_.context_of(transport_->rank())});
}

void Engine::drive_head() {
  if (!transport_->is_alive()) {
    end_without_mpi();
    return;
  }
  control_.poll();
  if (follow_others()) return;
  if (const auto& loss = control_.late_loss()) epoch_.lose(*loss);
  if (const auto& lost = epoch_.lost()) {
    reached(Mark::communicator_lost);
    const Failure failure{
        Code::unavailable,
        fmt::format("{} no longer works, because of an earlier failure: {}", options_.name, lost->text), lost->context};
    if (lost->is_loss()) {
      epoch_.end(failure);  // all ranks know of the loss
    } else {
      epoch_.end_everywhere(failure);
    }
    return;
  }
  Operation& head = queue_.head();
  watchdog_.count_time();
  if (const auto now = watchdog_.last_driven();
      now - family_answered_ > answer_interval && watchdog_.has_waited(unanswered_time)) {
    family_answered_ = now;
    options_.family->answer_for(
        *this, {queue_.text_of(head), watchdog_.has_waited_long(), watchdog_.missing_ranks(epoch_.number())});
  }
  if (advance_head()) return;
  const auto gone = presence_.failure_of_head(epoch_.number(), watchdog_.last_driven());
  const auto timeout = gone ? std::nullopt : watchdog_.check(epoch_.number());
  if (!gone && !timeout) return;
  if (gone && advance_head()) return;  // the last data of a rank may have come together with the end of its connection
  // this thread may have computed or been stopped since it last looked, and a rank that has left has published with
  // what it ended the epoch: a failure of another rank takes precedence
  control_.poll();
  if (follow_others()) return reached(Mark::failure_of_another_rank_first);
  reached(gone ? Mark::rank_gone : Mark::deadline);
  if (gone) {
    report_lost_rank();
  } else {
    report_unresponsive_rank(head.fail_after(options_.fail_after));
  }
  epoch_.end_everywhere(gone ? *gone : *timeout);
}

/// Returns whether the head has ended.
bool Engine::advance_head() {
  Operation& head = queue_.head();
  if (!head.is_agreed()) {
    if (!agreement_->is_open()) {
      queue_.place(head);
      agreement_->open(epoch_.number(), queue_.sequence(), head);
    }
    if (!agreement_->advance()) return false;
    if (!conclude_agreement()) return true;
    watchdog_.restart();
  }
  if (!head.advance(*transport_, workspace_)) return false;
  finish_head(error_of(head));
  return true;
}

bool Engine::follow_others() {
  std::optional<Failure> failure = epoch_.end_elsewhere(queue_.sequence());
  if (!failure) return false;
  if (failure->is_loss() && failure->ends != Ends::job) report_lost_rank();
  if (failure->ends == Ends::communicator_here) {
    failure->ends = Ends::communicator;
    failure->text = fmt::format("{}: {}", queue_.text_of(queue_.head()), failure->text);
    epoch_.end_everywhere(*std::move(failure));
  } else {
    epoch_.end_by_other_rank(*failure);
  }
  return true;
}

/// Starts the head if the ranks agree. Otherwise ends it, and returns false.
bool Engine::conclude_agreement() {
  agreement_->close();
  if (!agreement_->all_agree()) {
    reached(Mark::calls_differ);
    finish_head(mismatch());
    return false;
  }
  queue_.agree_on_head();
  queue_.head().start(*transport_, workspace_);
  return true;
}

SharedError Engine::mismatch() const {
  const Summary summary = agreement_->summary();
  const Side& a = summary.lowest;
  const Side& b = summary.differing;
  const ErrorContext context = queue_.context_of(b.rank);
  const int ranks = transport_->size();
  return std::make_shared<const Error>(
      Code::mismatch,
      fmt::format("ranks disagree on operation #{} of {}: {}{}{}{}", context.sequence, options_.name,
                  describe_difference(a.rank, a.descriptor, b.rank, b.descriptor),
                  difference_of_merges(a.rank, a.descriptor.merges, b.rank, b.descriptor.merges),
                  difference_of_positions(a.rank, a.descriptor, b.rank, b.descriptor, options_.recovery_advice),
                  ranks > 2 ? fmt::format("; these are two of the {} ranks", ranks) : ""),
      context);
}

SharedError Engine::error_of(const Operation& head) const {
  const Failure* const failure = head.failure();
  if (failure == nullptr) return nullptr;
  ErrorContext context = failure->context;
  context.operation = operation_name(head.descriptor());
  context.sequence = queue_.sequence();
  return std::make_shared<const Error>(failure->code, fmt::format("{}: {}", queue_.text_of(head), failure->text),
                                       context);
}

/// If the ranks disagree on the head, a rank that has thrown the error may make other calls than one that does not know
/// of it yet, so operations that are posted before this rank throws it fail with it.
void Engine::finish_head(const SharedError& error) {
  queue_.finish_head(error);
  if (error != nullptr && error->code() == Code::mismatch) {
    queue_.refuse(epoch_.number(), error);
    epoch_.set_unobserved_mismatch(error);
  }
  watchdog_.reset();
  epoch_.end_if_aborted();
}

void Engine::stop_head(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  const bool is_shortage = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  try {
    const int rank = transport_->rank();
    if (!transport_->is_alive()) {
      end_without_mpi();
      untold_.reset();
      return;
    }
    std::string text = fmt::format("rank {} failed: {}{}", rank, is_shortage ? "out of memory: " : "",
                                   ours != nullptr ? ours->text() : error.what());
    if (!queue_.is_empty()) text = fmt::format("{}: {}", queue_.text_of(queue_.head()), text);
    const Failure failure{ours != nullptr ? ours->code() : (is_shortage ? Code::unavailable : Code::internal),
                          std::move(text), queue_.context_of(rank)};
    // no data moves before the agreement; after the agreement, some operations that throw do not know which of their
    // data still moves
    const bool is_known = !queue_.is_empty() && (!queue_.head().is_agreed() || queue_.head().survives_faults());
    if (!is_known) epoch_.lose(failure);
    epoch_.end_everywhere(failure);
    untold_.reset();
  } catch (const std::bad_alloc&) {
    constexpr int least_tries = 100;  // a rank that has not called for long has not tried
    const Clock::time_point now = Clock::now();
    if (!untold_) untold_ = Untold{epoch_.number(), now, 0};
    untold_->tries = std::min(untold_->tries + 1, least_tries);
    if (untold_->tries < least_tries || now - untold_->since <= options_.fail_after) return;
    log_line(
        "for the whole deadline of an operation, there was no memory for the text of its error: this process ends");
    std::abort();
  }
}

// ---- failures

void Engine::abort(const std::string& text, const std::source_location& where) {
  // a thread that may not enter MPI cannot send: the other ranks wait until their deadline
  if (is_forked_copy() || !this_thread_may_call()) return;
  const MutexLock lock(mutex_);
  epoch_.abort(text, where);
}

void Engine::propagate_current_exception(FoundBy found_by, const std::source_location& where) {
  if (transport_->size() == 1 || is_forked_copy()) return;
  const bool may_send = this_thread_may_call();
  const MutexLock lock(mutex_);
  knows_failures_.store(true, std::memory_order_relaxed);
  try {
    throw;
  } catch (Error& error) {
    epoch_.propagate(&error, error.what(), where, found_by, may_send);
  } catch (const std::bad_alloc& error) {
    epoch_.propagate(nullptr, error.what(), where, FoundBy::this_rank, may_send);
  } catch (const std::exception& error) {
    epoch_.propagate(nullptr, error.what(), where, found_by, may_send);
  } catch (...) {
    epoch_.propagate(nullptr, text_of_foreign_exception(), where, found_by, may_send);
  }
}

void Engine::forget_propagated() {
  if (!knows_failures_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  epoch_.forget_known();
  knows_failures_.store(false, std::memory_order_relaxed);
}

}  // namespace lockstep::detail
