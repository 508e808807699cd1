// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/gradient_buckets.hpp>

#include "base/check.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

/// Tensors that go out together: one plan.
struct Bucket {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t missing = 0;  ///< (replica, tensor) pairs that are not ready in this step
  std::optional<Plan> plan;
  std::optional<Request> request;
};

CommunicatorOptions options_for_buckets(const Communicator& communicator) {
  CommunicatorOptions options = communicator.options();
  options.local_replicas = communicator.local_replicas();
  options.name = "gradient buckets";
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
      detail::throw_error(Code::invalid_argument,
                          "GradientBuckets: gradients has {} lists, but this rank has {} replicas", lists.size(),
                          replicas);
    }
    for (const auto& list : lists) {
      if (list.size() == lists.front().size()) continue;
      detail::throw_error(Code::invalid_argument,
                          "GradientBuckets: one replica has {} tensors, another {}; all must have the same",
                          list.size(), lists.front().size());
    }
  }

  void cut() {
    Bucket bucket;
    std::size_t bytes = 0;
    const auto close = [&](std::size_t last) {
      bucket.last = last;
      bucket.plan.emplace(
          communicator.prepare_all_reduce(std::span(items).subspan(bucket.first, last - bucket.first), options.op));
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

  void begin_step() {
    next = 0;
    is_ready.assign(is_ready.size(), false);
    for (Bucket& one : buckets) one.missing = (one.last - one.first) * replicas();
  }

  [[nodiscard]] std::size_t replicas() const { return static_cast<std::size_t>(communicator.local_replicas()); }

  /// With `mutex` held: posts the buckets whose turn it is.
  void post(bool is_last_call) {
    while (next < buckets.size() && buckets[next].missing == 0 && !failure) {
      Bucket& bucket = buckets[next];
      // nothing is under way and nothing is left to compute: no thread could do it better than this one
      if (is_last_call && next + 1 == buckets.size() && (next == 0 || !buckets[next - 1].request)) return;
      ++next;
      try {
        bucket.request.emplace(bucket.plan->run_async());
      } catch (...) {
        failure = std::current_exception();
      }
    }
  }

  /// With `mutex` held: waits for all, the last bucket on this thread if nothing is under way.
  void complete() {
    for (Bucket& bucket : buckets) {
      try {
        if (bucket.request) {
          bucket.request->wait();
        } else if (!failure) {
          bucket.plan->run();
        }
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
      bucket.request.reset();
    }
  }

  Communicator communicator;
  GradientBucketsOptions options;
  std::vector<std::vector<TensorView>> outputs;  // by tensor, then replica
  std::vector<std::vector<ConstTensorView>> inputs;
  std::vector<Item> items;
  std::vector<std::size_t> bucket_of;
  std::atomic<double> wait_seconds{0};

  std::mutex mutex;  // guards all below
  std::condition_variable step_ended;
  std::deque<Bucket> buckets;
  std::vector<bool> is_ready;  // by replica, then tensor
  std::size_t next = 0;        // bucket to go out
  std::size_t finishing = 0;   // replicas inside finish
  std::uint64_t step = 0;
  std::exception_ptr failure;
  std::exception_ptr last_failure;
};

GradientBuckets::GradientBuckets(const Communicator& communicator, std::span<const std::vector<TensorView>> gradients,
                                 const GradientBucketsOptions& options)
    : state_(std::make_unique<State>(communicator, gradients, options)) {}

GradientBuckets::~GradientBuckets() = default;  // requests wait for themselves

void GradientBuckets::ready(int replica, std::size_t index) {
  State& state = *state_;
  const std::scoped_lock lock(state.mutex);
  if (replica < 0 || static_cast<std::size_t>(replica) >= state.replicas() || index >= state.items.size()) {
    detail::throw_error(Code::invalid_argument,
                        "GradientBuckets::ready: there is no tensor {} of local replica {}; there are {} tensors on {} "
                        "replicas",
                        index, replica, state.items.size(), state.replicas());
  }
  const std::size_t place = static_cast<std::size_t>(replica) * state.items.size() + index;
  if (state.is_ready[place]) {
    detail::throw_error(Code::failed_precondition,
                        "GradientBuckets::ready: tensor {} of local replica {} is ready already in this step", index,
                        replica);
  }
  state.is_ready[place] = true;
  --state.buckets[state.bucket_of[index]].missing;
  state.post(false);
}

void GradientBuckets::finish(int replica) {
  State& state = *state_;
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(state.mutex);
  for (std::size_t k = 0; k < state.items.size(); ++k) {
    const std::size_t place = static_cast<std::size_t>(replica) * state.items.size() + k;
    if (state.is_ready[place]) continue;
    state.is_ready[place] = true;
    --state.buckets[state.bucket_of[k]].missing;
  }
  const std::uint64_t step = state.step;
  if (++state.finishing < state.replicas()) {
    state.post(false);
    state.step_ended.wait(lock, [&] { return state.step != step; });
  } else {
    state.post(true);
    state.complete();
    state.last_failure = std::exchange(state.failure, nullptr);
    state.finishing = 0;
    ++state.step;
    state.begin_step();
    state.step_ended.notify_all();
  }
  if (replica == 0) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    state.wait_seconds.store(state.wait_seconds.load(std::memory_order_relaxed) + waited.count(),
                             std::memory_order_relaxed);
  }
  if (state.last_failure) std::rethrow_exception(state.last_failure);
}

std::size_t GradientBuckets::reduced_count() {
  State& state = *state_;
  const std::scoped_lock lock(state.mutex);
  std::size_t tensors = 0;
  for (Bucket& bucket : state.buckets) {
    if (!bucket.request || !bucket.request->test()) break;
    tensors = bucket.last;
  }
  return tensors;
}

std::size_t GradientBuckets::bucket_count() const noexcept { return state_->buckets.size(); }
double GradientBuckets::wait_seconds() const noexcept { return state_->wait_seconds.load(std::memory_order_relaxed); }

}  // namespace lockstep
