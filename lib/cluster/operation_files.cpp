// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/operation_files.hpp"

#include "base/never_destroyed.hpp"
#include "cluster/end_of_job.hpp"

#include <string>
#include <utility>

namespace lockstep::detail {
namespace {

struct OpenFiles {
  Mutex mutex;
  std::weak_ptr<OperationFiles> files LOCKSTEP_GUARDED_BY(mutex);
};

OpenFiles& open_files() {
  static NeverDestroyed<OpenFiles> result;  // the files may be released while the process ends
  return *result;
}

/// Uses the files until MPI is finalized.
class UntilFinalize : public JobMember {
 public:
  static UntilFinalize& of_this_process() {
    static auto* const result = new UntilFinalize;  // never destroyed: MPI may be finalized while the process ends
    return *result;
  }
  void keep(std::shared_ptr<OperationFiles> files) {
    {
      const MutexLock lock(mutex_);
      if (std::exchange(files_, std::move(files)) != nullptr) return;
    }
    join_job(*this);
  }
  void on_abort(const std::string&) noexcept override {}
  void on_finalize() noexcept override {
    const MutexLock lock(mutex_);
    files_.reset();
  }

 private:
  Mutex mutex_;
  std::shared_ptr<OperationFiles> files_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace

OperationFiles::OperationFiles(const Settings& settings, int rank, int size) {
  if (!settings.metrics_file.empty() || !settings.trace_directory.empty())
    reporter_ = std::make_unique<Reporter>(settings, rank, size);
  if (!settings.hash_log_directory.empty())
    hash_log_ = std::make_shared<HashLog>(settings.hash_log_directory, rank, size);
}

OperationFiles::~OperationFiles() { set_hash_log(nullptr); }

void OperationFiles::start() {
  const MutexLock lock(mutex_);
  if (has_started_) return;
  if (reporter_ != nullptr) reporter_->start();
  set_hash_log(hash_log_);
  has_started_ = true;
}

std::shared_ptr<OperationFiles> OperationFiles::of_this_process(const Settings& settings, int rank, int size) {
  if (settings.metrics_file.empty() && settings.trace_directory.empty() && settings.hash_log_directory.empty())
    return nullptr;
  const MutexLock lock(open_files().mutex);
  std::shared_ptr<OperationFiles> files = open_files().files.lock();
  if (files == nullptr) {
    files = std::make_shared<OperationFiles>(settings, rank, size);
    open_files().files = files;
  }
  return files;
}

void OperationFiles::keep_until_finalize(std::shared_ptr<OperationFiles> files) {
  if (files != nullptr) UntilFinalize::of_this_process().keep(std::move(files));
}

}  // namespace lockstep::detail
