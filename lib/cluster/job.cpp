// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/job.hpp"

#include "base/log.hpp"
#include "base/never_destroyed.hpp"
#include "base/phrases.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

struct Current {
  Mutex mutex;
  std::shared_ptr<Job> job LOCKSTEP_GUARDED_BY(mutex);
};

Current& current() {
  static NeverDestroyed<Current> result;  // one per process, like MPI
  return *result;
}

}  // namespace

std::shared_ptr<Job> job_of_this_process() {
  const MutexLock lock(current().mutex);
  return current().job;
}

void set_job(std::shared_ptr<Job> job) {
  {
    const MutexLock lock(current().mutex);
    std::swap(current().job, job);
  }
  if (!job) return;
  std::shared_ptr<void> attachment;
  const MutexLock lock(job->mutex);
  std::swap(attachment, job->attachment);
}

void await_all_ranks(const std::function<bool()>& test, const Settings& settings, std::string_view object) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point since = Clock::now();
  bool has_warned = false;
  for (int polls = 0; !test(); ++polls) {
    constexpr int yields = 1000;
    polls < yields ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(100));
    const auto waited = Clock::now() - since;
    if (waited > settings.fail_after) {
      throw Error(Code::deadline_exceeded,
                  fmt::format("{0}: timed out after {1} s waiting for all ranks of the job; at least one rank has not "
                              "created its {0}",
                              object, seconds(settings.fail_after)),
                  {-1, -1, std::string(object), -1});
    }
    if (waited <= settings.warn_after || std::exchange(has_warned, true)) continue;
    log_warning("{}: this rank has waited {:.1f} s for all ranks of the job to create theirs", object, seconds(waited));
  }
}

}  // namespace lockstep::detail
