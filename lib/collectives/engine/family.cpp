// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/family.hpp"

#include "collectives/engine/engine.hpp"

namespace lockstep::detail {

void Family::join(Engine& engine) {
  const MutexLock lock(mutex_);
  engines_.push_back(&engine);
}

void Family::leave(Engine& engine) noexcept {
  const MutexLock lock(mutex_);
  std::erase(engines_, &engine);
}

void Family::send_status(const Engine& waiting, const std::string& what) {
  const MutexLock lock(mutex_);
  for (Engine* const engine : engines_) {
    if (engine != &waiting) engine->send_status(what);
  }
}

void Family::take_messages(const Engine& driven) noexcept {
  if (!mutex_.try_lock()) return;
  for (Engine* const engine : engines_) {
    if (engine != &driven) engine->take_messages();
  }
  mutex_.unlock();
}

}  // namespace lockstep::detail
