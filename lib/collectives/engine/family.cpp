// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/family.hpp"

#include "collectives/engine/engine.hpp"

#include <algorithm>

namespace lockstep::detail {

void Family::join(Engine& engine) {
  const MutexLock lock(mutex_);
  engines_.push_back(&engine);
}

void Family::leave(Engine& engine) noexcept {
  const MutexLock lock(mutex_);
  std::erase(engines_, &engine);
}

void Family::answer_for(const Engine& waiting, const WaitElsewhere& wait) noexcept {
  if (!mutex_.try_lock()) return;
  for (Engine* const engine : engines_) {
    if (engine != &waiting) engine->answer(wait);
  }
  mutex_.unlock();
}

bool Family::has_work_beside(const Engine& waiting) noexcept {
  if (!mutex_.try_lock()) return true;
  const bool has_work = std::any_of(engines_.begin(), engines_.end(),
                                    [&](Engine* engine) { return engine != &waiting && engine->has_work(); });
  mutex_.unlock();
  return has_work;
}

}  // namespace lockstep::detail
