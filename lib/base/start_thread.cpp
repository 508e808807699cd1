// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/start_thread.hpp"

#include "base/check.hpp"

namespace lockstep::detail {

void throw_no_thread(const ThreadPurpose& purpose, const std::system_error& error) {
  throw_error(Code::unavailable,
              "{} cannot be started: {}; raise the limit on threads (ulimit -u, or pids.max of the control group), or "
              "{}",
              purpose.thread, error.code().message(), purpose.remedy);
}

}  // namespace lockstep::detail
