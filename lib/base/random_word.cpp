// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/random_word.hpp"

#include "base/check.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace lockstep::detail {

std::uint64_t random_word() {
  std::uint64_t word = 0;
  while (word == 0) {
    const ssize_t got = getrandom(&word, sizeof(word), 0);
    if (got == static_cast<ssize_t>(sizeof(word))) continue;
    if (errno != EINTR) throw_error(Code::unavailable, "getrandom: {}", std::strerror(errno));
    word = 0;
  }
  return word;
}

}  // namespace lockstep::detail
