// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/job.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

struct Current {
  Mutex mutex;
  std::shared_ptr<Job> job LOCKSTEP_GUARDED_BY(mutex);
};

Current& current() {
  static auto* const result = new Current;  // one per process, like MPI; outlives all static objects
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

}  // namespace lockstep::detail
