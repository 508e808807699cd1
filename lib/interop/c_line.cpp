// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "interop/c_line.hpp"

#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"

#include <exception>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace lockstep::interop {
namespace {

struct Texts {
  detail::Mutex mutex;
  std::set<std::string, std::less<>> all LOCKSTEP_GUARDED_BY(mutex);
};

/// Never destroyed: threads may make calls at any time.
Texts& texts() {
  static detail::NeverDestroyed<Texts> of_this_process;
  return *of_this_process;
}

}  // namespace

const char* lasting_copy(const char* text) noexcept {
  thread_local const char* last = "";
  if (std::strcmp(last, text) == 0) return last;
  try {
    Texts& kept = texts();
    const detail::MutexLock lock(kept.mutex);
    auto found = kept.all.find(std::string_view(text));
    if (found == kept.all.end()) found = kept.all.emplace(text).first;
    return last = found->c_str();
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace lockstep::interop
