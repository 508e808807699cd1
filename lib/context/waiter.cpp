// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "context/waiter.hpp"

#include "base/processor.hpp"

namespace lockstep {

WaitPolicy WaitPolicy::for_threads(int threads) {
  if (threads > detail::allowed_cpus()) return {.spin = std::chrono::nanoseconds(0)};
  return {};
}

}  // namespace lockstep
