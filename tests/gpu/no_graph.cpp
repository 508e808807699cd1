// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Fake GPUs have no graphs.

#include "gpu/device_clock.hpp"

namespace lockstep::test {

std::optional<double> graph_us_of(const Launch& /*launch*/, int /*launches*/, const Effort& /*effort*/) {
  return std::nullopt;
}

}  // namespace lockstep::test
