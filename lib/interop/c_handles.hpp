// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The objects behind the handles of the interface for C.

#pragma once

#include <lockstep/lockstep.h>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/request.hpp>

#include "base/check.hpp"

#include <string_view>

struct lockstep_environment {
  lockstep::Environment environment;
};

struct lockstep_communicator {
  lockstep::Communicator communicator;
};

struct lockstep_request {
  lockstep::Request request;
};

namespace lockstep::interop {

/// Throws Error(invalid_argument) if `pointer`, the argument `argument` of the function `function`, is null.
template <class T>
void require(const T* pointer, std::string_view function, std::string_view argument) {
  if (pointer == nullptr) detail::throw_error(Code::invalid_argument, "{}: {} is NULL", function, argument);
}

/// The communicator of a handle. Throws Error(invalid_argument) for NULL.
inline const Communicator& communicator_of(const lockstep_communicator* handle, std::string_view function) {
  require(handle, function, "communicator");
  return handle->communicator;
}

}  // namespace lockstep::interop
