// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/nccl/comms.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/signals.hpp"
#include "collectives/call/backoff.hpp"
#include "device/cuda/streams.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

// Timeout for ending NCCL's communicators. The end normally takes a fraction of a second, or longer if ranks are late.
constexpr std::chrono::milliseconds end_timeout{5'000};

struct Completion {
  Mutex mutex;
  std::condition_variable changed;
  bool is_done LOCKSTEP_GUARDED_BY(mutex) = false;
};

/// Runs `work`, which may never return, on a separate thread. Returns whether `work` completed within `timeout`. If it
/// did not, the thread is abandoned. `work` must not throw, and must own everything that it uses.
bool completes_within(std::chrono::milliseconds timeout, const std::function<void()>& work) noexcept {
  try {
    const auto completion = std::make_shared<Completion>();
    const SignalsBlocked no_signals;
    std::thread([completion, work] {
      work();
      const MutexLock lock(completion->mutex);
      completion->is_done = true;
      completion->changed.notify_all();
    }).detach();
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(completion->mutex);
    while (!completion->is_done) {
      if (!lock.wait_until(completion->changed, deadline)) break;
    }
    return completion->is_done;
  } catch (const std::exception& error) {
    log_warning("cannot start a thread: {}", error.what());
    return false;
  }
}

using Handles = std::shared_ptr<std::vector<nccl::Comm>>;
using EndCall = nccl::Result (nccl::Api::*)(nccl::Comm);

/// Makes `call` for all `comms`, in one group: NCCL requires a group for several GPUs of one process.
void end_all(const std::shared_ptr<nccl::Api>& api, const Handles& comms, EndCall call,
             std::string_view name) noexcept {
  const bool is_done = completes_within(end_timeout, [api, comms, call] {
    static_cast<void>(api->group_start());
    for (nccl::Comm const comm : *comms) {
      if (comm != nullptr) static_cast<void>((api.get()->*call)(comm));
    }
    static_cast<void>(api->group_end());
  });
  if (!is_done) log_warning("{} did not return within {} ms; leaking its resources", name, end_timeout.count());
}

}  // namespace

NcclComms::NcclComms(std::shared_ptr<nccl::Api> api, std::vector<int> devices)
    : api_(std::move(api)), devices_(std::move(devices)) {}

NcclComms::~NcclComms() { finish(); }

void NcclComms::check(nccl::Result result, std::string_view call) const {
  if (result == nccl::Result::success || result == nccl::Result::in_progress) return;
  const std::string details = api_->last_error(nullptr);
  throw_error(Code::unavailable, "{}: {}{}{}", call, api_->error_string(result), details.empty() ? "" : ": ", details);
}

void NcclComms::start(const nccl::UniqueId& id, int first, int all) {
  comms_ = std::make_shared<std::vector<nccl::Comm>>(devices_.size());
  NcclGroup group(*this);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const cuda::CurrentDevice current(devices_[i]);
    group.add(api_->comm_init_rank((*comms_)[i], all, id, first + static_cast<int>(i)), "ncclCommInitRankConfig");
  }
  group.end();
}

bool NcclComms::are_ready() const {
  bool all = true;
  for (nccl::Comm const comm : *comms_) {
    nccl::Result state = nccl::Result::success;
    check(api_->comm_get_async_error(comm, state), "ncclCommGetAsyncError");
    check(state, "NCCL");
    all = all && state == nccl::Result::success;
  }
  return all;
}

void NcclComms::abort() noexcept {
  if (are_there()) end_all(api_, std::exchange(comms_, nullptr), &nccl::Api::comm_abort, "ncclCommAbort");
}

void NcclComms::finish() noexcept {
  if (!are_there()) return;
  bool is_finished = false;
  try {
    is_finished = finalize();
  } catch (const std::exception& error) {
    log_warning("cannot finalize NCCL: {}", error.what());
  }
  if (is_finished) {
    end_all(api_, std::exchange(comms_, nullptr), &nccl::Api::comm_destroy, "ncclCommDestroy");
  } else {
    abort();
  }
}

bool NcclComms::finalize() {
  if (!are_ready()) return false;
  NcclGroup group(*this);
  for (nccl::Comm const comm : *comms_) group.add(api_->comm_finalize(comm), "ncclCommFinalize");
  group.end();
  const auto until = std::chrono::steady_clock::now() + end_timeout;
  Backoff backoff(Backoff::shared_core_spins);
  while (!are_ready()) {
    if (std::chrono::steady_clock::now() > until) return false;
    backoff.pause();
  }
  return true;
}

NcclGroup::NcclGroup(const NcclComms& comms) : comms_(comms) {
  comms.check(comms.api().group_start(), "ncclGroupStart");
}

NcclGroup::~NcclGroup() {
  if (is_open_) static_cast<void>(comms_.api().group_end());
}

void NcclGroup::end() {
  is_open_ = false;
  comms_.check(comms_.api().group_end(), "ncclGroupEnd");
}

}  // namespace lockstep::detail
