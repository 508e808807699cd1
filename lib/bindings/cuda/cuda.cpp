// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/cuda/cuda.hpp"

#include "base/check.hpp"

namespace lockstep::detail::cuda {

void check(const Api& api, Status status, std::string_view call) {
  if (status == Status::success) return;
  throw_error(Code::unavailable, "{} failed: {} ({})", call, api.error_string(status), api.error_name(status));
}

}  // namespace lockstep::detail::cuda
