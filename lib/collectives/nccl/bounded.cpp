// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/nccl/bounded.hpp"

#include "base/log.hpp"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace lockstep::detail {
namespace {

struct End {
  std::mutex mutex;
  std::condition_variable came;
  bool has_come = false;  // guarded by mutex
};

}  // namespace

bool ends_within(std::chrono::milliseconds patience, const std::function<void()>& work) noexcept {
  try {
    const auto end = std::make_shared<End>();
    std::thread([end, work] {
      work();
      const std::scoped_lock lock(end->mutex);
      end->has_come = true;
      end->came.notify_all();
    }).detach();
    std::unique_lock lock(end->mutex);
    return end->came.wait_for(lock, patience, [&] { return end->has_come; });
  } catch (const std::exception& error) {
    log_warning("no thread could be started: {}", error.what());
    return false;
  }
}

}  // namespace lockstep::detail
