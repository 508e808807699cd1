// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/given_up.hpp"

#include <mutex>
#include <vector>

namespace lockstep::detail {
namespace {

struct GivenUp {
  std::mutex mutex;
  std::vector<const void*> memory;
};

}  // namespace

void give_up(const void* memory) noexcept {
  try {
    // never destroyed: threads may give memory up while the process ends
    static GivenUp& given_up = *new GivenUp;
    const std::lock_guard lock(given_up.mutex);
    given_up.memory.push_back(memory);
  } catch (...) {  // no memory to remember it in: it is given up all the same
  }
}

}  // namespace lockstep::detail
