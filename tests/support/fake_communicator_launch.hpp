// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/fake_communicator.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace lockstep::test {

/// The calls of one group, on their way.
struct FakeCommunicator::Launch {
  std::vector<Step> steps;  // collectives first
  std::optional<FakeFault> fault;
  std::shared_ptr<void> end;  // counts this one out
};

}  // namespace lockstep::test
