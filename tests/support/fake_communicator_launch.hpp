// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/fake_communicator.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace lockstep::test {

/// The pending calls of one group.
struct FakeCommunicator::Launch {
  std::vector<Step> steps;  // collectives first
  std::optional<FakeFault> fault;
  std::shared_ptr<void> end;  // its destructor counts this launch as ended
};

}  // namespace lockstep::test
