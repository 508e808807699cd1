// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace lockstep::detail {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "lockstep: internal error (a bug in lockstep): the check %s failed (%s:%d); please report it\n",
               condition, file, line);
  std::abort();
}

}  // namespace lockstep::detail
