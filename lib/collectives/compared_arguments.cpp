// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/compared_arguments.hpp"

#include "collectives/engine/engine.hpp"
#include "collectives/make_communicator.hpp"

namespace lockstep::detail {

ComparedArguments::ComparedArguments(const Communicator& communicator, std::string_view arguments)
    : communicator_(communicator.size() > 1 && !arguments.empty() ? &communicator : nullptr) {
  if (communicator_ != nullptr) {
    replaced_ = CommunicatorAccess::engine(*communicator_).add_arguments(arguments);
  }
}

ComparedArguments::~ComparedArguments() {
  if (communicator_ != nullptr) CommunicatorAccess::engine(*communicator_).restore_arguments(replaced_);
}

}  // namespace lockstep::detail
