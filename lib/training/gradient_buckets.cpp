// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/gradient_buckets.hpp>

#include <lockstep/collectives/detail/propagate.hpp>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "base/phrases.hpp"
#include "context/step.hpp"
#include "training/micro_batch_sums.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

/// The exchange without a hook: a plan of one all_reduce.
class AllReduceExchange final : public BucketExchange {
 public:
  AllReduceExchange(const Communicator& communicator, std::span<const Item> items, ReduceOp op)
      : plan_(communicator.prepare_all_reduce(items, op)) {}

  /// Reduces on this thread.
  void run() { plan_.run(); }

 private:
  void do_start() override { request_ = plan_.run_async(); }
  bool do_test() override { return request_.test(); }
  void do_wait() override { request_.wait(); }

  Plan plan_;
  Request request_;
};

/// Tensors that are reduced together.
struct Bucket {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t missing = 0;  ///< number of (replica, tensor) pairs that are not ready in this step
  std::unique_ptr<BucketExchange> exchange;
  AllReduceExchange* all_reduce = nullptr;  ///< the exchange, if it has no hook
  bool is_started = false;
};

CommunicatorOptions options_for_buckets(const Communicator& communicator) {
  CommunicatorOptions options = communicator.options();
  options.local_replicas = communicator.local_replicas();
  options.name = "GradientBuckets";
  options.recovery_advice = "create a new GradientBuckets on every rank, then restore the variables from a checkpoint";
  return options;
}

}  // namespace

struct GradientBuckets::State {
  State(const Communicator& original, std::span<const std::vector<TensorView>> lists, const GradientBucketsOptions& how)
      : communicator(original.duplicate(options_for_buckets(original))), options(how) {
    check(lists);
    const std::size_t tensors = lists.front().size();
    is_ready.assign(tensors * lists.size(), false);
    for (std::size_t k = 0; k < tensors; ++k) {
      auto& views = outputs.emplace_back();
      for (const auto& list : lists) views.push_back(list[k]);
      inputs.emplace_back(views.begin(), views.end());
    }
    for (std::size_t k = 0; k < tensors; ++k) items.push_back({inputs[k], outputs[k]});
    cut();
  }

  void check(std::span<const std::vector<TensorView>> lists) const {
    const auto replicas = static_cast<std::size_t>(communicator.local_replicas());
    if (lists.size() != replicas) {
      detail::throw_error(
          Code::invalid_argument,
          "GradientBuckets: gradients has {}, but this rank has {}; pass one list for each replica of the "
          "rank",
          detail::counted(lists.size(), "list"), detail::counted(replicas, "replica"));
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (lists[i].size() == lists.front().size()) continue;
      detail::throw_error(Code::invalid_argument,
                          "GradientBuckets: local replica 0 has {}, but local replica {} has {}; they must have "
                          "the same number",
                          detail::counted(lists.front().size(), "tensor"), i, lists[i].size());
    }
    for (std::size_t k = 0; k < lists.front().size(); ++k) {
      const DType dtype = lists.front()[k].dtype;
      const DType result = result_dtype(options.op, dtype);
      if (result == dtype) continue;
      detail::throw_error(Code::invalid_argument,
                          "GradientBuckets: tensor {} is {}, whose {} is {} and cannot be stored in its place; use "
                          "another op, or gradients of {}",
                          k, to_string(dtype), to_string(options.op), to_string(result), to_string(result));
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
      for (std::size_t k = 0; k < lists[i].size(); ++k) {
        const TensorView& here = lists[i][k];
        const TensorView& first = lists.front()[k];
        if (here.dtype == first.dtype && here.shape == first.shape) continue;
        detail::throw_error(Code::invalid_argument,
                            "GradientBuckets: tensor {} is {} {} in gradients[{}] but {} {} in gradients[0]; all lists "
                            "must have the same dtypes and shapes",
                            k, to_string(here.dtype), to_string(here.shape), i, to_string(first.dtype),
                            to_string(first.shape));
      }
    }
  }

  /// Divides the tensors into buckets.
  void cut() LOCKSTEP_REQUIRES(mutex) {
    Bucket bucket;
    std::size_t bytes = 0;
    const auto close = [&](std::size_t last) LOCKSTEP_REQUIRES(mutex) {
      bucket.last = last;
      make_exchange(bucket, std::span(items).subspan(bucket.first, last - bucket.first));
      bucket_of.resize(last, buckets.size());
      buckets.push_back(std::move(bucket));
      bucket = Bucket();
      bucket.first = last;
      bytes = 0;
    };
    for (std::size_t k = 0; k < items.size(); ++k) {
      bytes += outputs[k].front().byte_count();
      if (bytes >= options.bucket_bytes || k + 1 == items.size()) close(k + 1);
    }
    begin_step();
  }

  void make_exchange(Bucket& bucket, std::span<const Item> of_bucket) const {
    if (options.hook) {
      bucket.exchange = options.hook(communicator, of_bucket, options.op);
    } else {
      auto made = std::make_unique<AllReduceExchange>(communicator, of_bucket, options.op);
      bucket.all_reduce = made.get();
      bucket.exchange = std::move(made);
    }
  }

  void begin_step() LOCKSTEP_REQUIRES(mutex) {
    next = 0;
    is_ready.assign(is_ready.size(), false);
    for (Bucket& one : buckets) one.missing = (one.last - one.first) * replicas();
  }

  [[nodiscard]] std::size_t replicas() const { return static_cast<std::size_t>(communicator.local_replicas()); }

  /// Starts the reductions of complete buckets, in order, except for the last bucket.
  void post() LOCKSTEP_REQUIRES(mutex) {
    while (next < buckets.size() && buckets[next].missing == 0 && !failure && !is_alone) {
      Bucket& bucket = buckets[next];
      // no computation is left that could overlap with the last bucket, so `finish` reduces it without another thread
      if (next + 1 == buckets.size()) return;
      ++next;
      try {
        bucket.exchange->start();
        bucket.is_started = true;
      } catch (...) {
        failure = std::current_exception();
      }
    }
  }

  /// Waits for the buckets whose reduction has started, and reduces the remaining buckets on this thread.
  void complete() LOCKSTEP_REQUIRES(mutex) {
    for (Bucket& bucket : buckets) {
      try {
        if (bucket.is_started) {
          bucket.exchange->wait();
        } else if (!failure && !is_alone) {
          run(bucket);
        }
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
      bucket.is_started = false;
    }
  }
  static void run(Bucket& bucket) {
    if (bucket.all_reduce != nullptr) return bucket.all_reduce->run();
    bucket.exchange->start();
    bucket.exchange->wait();
  }

  /// Adds a tensor of a micro-batch to its sum, or moves the sum of the earlier micro-batches to the tensor. Called by
  /// the thread of `replica`, without the mutex.
  void accumulate(std::size_t replica, std::size_t index) {
    skips_exchange.load(std::memory_order_relaxed) ? sums->add(replica, index) : sums->move_to_tensor(replica, index);
  }

  /// Accumulates the tensors of `replica` that are not ready yet, and declares them ready.
  void accumulate_rest(std::size_t replica) {
    if (!sums) return;
    for (std::size_t k = 0; k < items.size(); ++k) {
      {
        const detail::MutexLock lock(mutex);
        const std::size_t place = replica * items.size() + k;
        if (is_ready[place]) continue;
        is_ready[place] = true;
      }
      accumulate(replica, k);
      const detail::MutexLock lock(mutex);
      --buckets[bucket_of[k]].missing;
    }
  }

  /// Ends a micro-batch of `replica` without an exchange.
  void end_micro_batch(std::size_t replica) LOCKSTEP_EXCLUDES(mutex) {
    accumulate_rest(replica);
    const detail::MutexLock lock(mutex);
    for (std::size_t k = 0; k < items.size(); ++k) {
      is_ready[replica * items.size() + k] = false;
      ++buckets[bucket_of[k]].missing;
    }
  }

  /// Declares the remaining tensors of `replica` ready.
  void declare_rest(std::size_t replica) LOCKSTEP_REQUIRES(mutex) {
    for (std::size_t k = 0; k < items.size(); ++k) {
      const std::size_t place = replica * items.size() + k;
      if (is_ready[place]) continue;
      is_ready[place] = true;
      --buckets[bucket_of[k]].missing;
    }
  }

  void end_step() LOCKSTEP_REQUIRES(mutex) {
    complete();
    last_failure = std::exchange(failure, nullptr);
    finishing = 0;
    ++step;
    begin_step();
    step_ended.notify_all();
  }

  void count_wait(std::chrono::steady_clock::time_point start) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    wait_seconds.store(wait_seconds.load(std::memory_order_relaxed) + waited.count(), std::memory_order_relaxed);
  }

  Communicator communicator;
  GradientBucketsOptions options;
  const std::chrono::milliseconds fail_after = communicator.options().fail_after.value();
  const bool is_alone = communicator.layout().replicas() == 1;  // one replica: no reduction
  std::vector<std::vector<TensorView>> outputs;                 // by tensor, then by replica
  std::vector<std::vector<ConstTensorView>> inputs;
  std::vector<Item> items;
  std::vector<std::size_t> bucket_of;
  std::atomic<double> wait_seconds{0};
  // Both change only between steps, when no replica uses them.
  std::unique_ptr<detail::MicroBatchSums> sums;  // null before the first NoSync
  std::atomic<bool> skips_exchange{false};

  detail::Mutex mutex;
  std::condition_variable step_ended;
  std::deque<Bucket> buckets LOCKSTEP_GUARDED_BY(mutex);
  std::vector<bool> is_ready LOCKSTEP_GUARDED_BY(mutex);  // by replica, then by tensor
  std::size_t next LOCKSTEP_GUARDED_BY(mutex) = 0;        // next bucket to be reduced
  std::size_t finishing LOCKSTEP_GUARDED_BY(mutex) = 0;   // number of replicas inside `finish`
  std::uint64_t step LOCKSTEP_GUARDED_BY(mutex) = 0;
  std::exception_ptr failure LOCKSTEP_GUARDED_BY(mutex);
  std::exception_ptr last_failure LOCKSTEP_GUARDED_BY(mutex);
};

GradientBuckets::GradientBuckets(const Communicator& communicator, std::span<const std::vector<TensorView>> gradients,
                                 const GradientBucketsOptions& options)
    : state_(detail::propagate_lack_of_memory(
          communicator, [&] { return std::make_unique<State>(communicator, gradients, options); })) {}

GradientBuckets::GradientBuckets(const Communicator& communicator, std::span<const TensorView> gradients,
                                 const GradientBucketsOptions& options)
    : GradientBuckets(
          communicator,
          detail::propagate_lack_of_memory(
              communicator, [&] { return std::array{std::vector<TensorView>(gradients.begin(), gradients.end())}; }),
          options) {}

GradientBuckets::~GradientBuckets() = default;  // requests wait when they are destroyed

void GradientBuckets::ready(int replica, std::size_t index) {
  State& state = *state_;
  detail::MutexLock lock(state.mutex);
  if (replica < 0 || static_cast<std::size_t>(replica) >= state.replicas() || index >= state.items.size()) {
    detail::throw_error(
        Code::invalid_argument,
        "GradientBuckets::ready: index is {} and replica is {}; index must be less than {}, the number of tensors, and "
        "replica must be from 0 to {}",
        index, replica, state.items.size(), state.replicas() - 1);
  }
  const std::size_t place = static_cast<std::size_t>(replica) * state.items.size() + index;
  if (state.is_ready[place]) {
    detail::throw_error(Code::failed_precondition,
                        "GradientBuckets::ready: tensor {} of local replica {} is already ready in this step", index,
                        replica);
  }
  state.is_ready[place] = true;
  if (state.sums) {
    lock.unlock();
    state.accumulate(static_cast<std::size_t>(replica), index);
    lock.lock();
  }
  --state.buckets[state.bucket_of[index]].missing;
  if (!state.skips_exchange.load(std::memory_order_relaxed)) state.post();
}

void GradientBuckets::finish(int replica) {
  State& state = *state_;
  if (state.skips_exchange.load(std::memory_order_relaxed))
    return state.end_micro_batch(static_cast<std::size_t>(replica));
  const auto start = std::chrono::steady_clock::now();
  state.accumulate_rest(static_cast<std::size_t>(replica));
  detail::MutexLock lock(state.mutex);
  state.declare_rest(static_cast<std::size_t>(replica));
  const std::uint64_t step = state.step;
  if (++state.finishing == state.replicas()) {
    state.end_step();
  } else {
    state.post();
    const auto deadline = start + state.fail_after;
    while (state.step == step && lock.wait_until(state.step_ended, deadline)) {}
    if (state.step == step) {
      state.failure = std::make_exception_ptr(Error(
          Code::deadline_exceeded,
          fmt::format("GradientBuckets::finish: timed out after {} s: only {} of {} local replicas called it",
                      std::chrono::duration<double>(state.fail_after).count(), state.finishing, state.replicas())));
      state.end_step();
    }
  }
  if (replica == 0) state.count_wait(start);
  if (state.last_failure) std::rethrow_exception(state.last_failure);
}

void GradientBuckets::finish(ReplicaContext& replica) {
  const auto local = static_cast<std::size_t>(replica.local_replica());
  if (state_->skips_exchange.load(std::memory_order_relaxed)) return state_->end_micro_batch(local);
  state_->accumulate_rest(local);
  StepAccess::name_merge_call(replica, {"GradientBuckets::finish", {}});
  replica.merge_call([this](Strategy&) {
    State& state = *state_;
    const auto start = std::chrono::steady_clock::now();
    const detail::MutexLock lock(state.mutex);
    for (std::size_t i = 0; i < state.replicas(); ++i) state.declare_rest(i);
    state.end_step();
    state.count_wait(start);
    if (state.last_failure) std::rethrow_exception(state.last_failure);
  });
}

std::size_t GradientBuckets::reduced_count() {
  State& state = *state_;
  const detail::MutexLock lock(state.mutex);
  if (state.skips_exchange.load(std::memory_order_relaxed)) return 0;
  if (state.failure) std::rethrow_exception(state.failure);
  std::size_t tensors = 0;
  try {
    for (Bucket& bucket : state.buckets) {
      if (state.is_alone ? bucket.missing > 0 : !bucket.is_started || !bucket.exchange->test()) break;
      tensors = bucket.last;
    }
  } catch (...) {
    state.failure = std::current_exception();  // the step has failed: `finish` starts no further bucket
    throw;
  }
  return tensors;
}

GradientBuckets::NoSync::NoSync(GradientBuckets& buckets) : state_(buckets.state_.get()) {
  State& state = *state_;
  if (state.options.op != ReduceOp::sum && state.options.op != ReduceOp::mean) {
    detail::throw_error(Code::invalid_argument,
                        "GradientBuckets::no_sync: the op is {}; micro-batches can be added only if it is sum or mean",
                        to_string(state.options.op));
  }
  const detail::MutexLock lock(state.mutex);
  for (std::size_t place = 0; place < state.is_ready.size(); ++place) {
    if (!state.is_ready[place]) continue;
    detail::throw_error(Code::failed_precondition,
                        "GradientBuckets::no_sync: tensor {} of local replica {} is ready already; call no_sync before "
                        "the micro-batch",
                        place % state.items.size(), place / state.items.size());
  }
  if (!state.sums) state.sums = std::make_unique<detail::MicroBatchSums>(state.outputs);
  state.skips_exchange.store(true, std::memory_order_relaxed);
}

GradientBuckets::NoSync::~NoSync() {
  if (state_ != nullptr) state_->skips_exchange.store(false, std::memory_order_relaxed);
}

std::size_t GradientBuckets::bucket_count() const noexcept {
  const detail::MutexLock lock(state_->mutex);
  return state_->buckets.size();
}
double GradientBuckets::wait_seconds() const noexcept { return state_->wait_seconds.load(std::memory_order_relaxed); }

}  // namespace lockstep
