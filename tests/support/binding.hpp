// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sched.h>

#include <cstddef>

namespace lockstep::test {

/// Binds this process to some processors of the machine. The destructor undoes it.
class Binding {
 public:
  Binding() { is_known_ = sched_getaffinity(0, sizeof(before_), &before_) == 0; }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding() {
    if (is_known_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  /// Takes `count` of the processors that this process could run on before, without the first `skipped`. Returns
  /// whether there are so many.
  [[nodiscard]] bool bind(int skipped, int count) const {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&set) < count; ++cpu) {
      if (CPU_ISSET(cpu, &before_) && skipped-- <= 0) CPU_SET(cpu, &set);
    }
    return is_known_ && CPU_COUNT(&set) == count && sched_setaffinity(0, sizeof(set), &set) == 0;
  }

  /// Number of processors that this process could run on before.
  [[nodiscard]] int count() const { return is_known_ ? CPU_COUNT(&before_) : 0; }

 private:
  cpu_set_t before_{};
  bool is_known_ = false;
};

}  // namespace lockstep::test
