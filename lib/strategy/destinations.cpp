// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/destinations.hpp>

#include "base/check.hpp"

namespace lockstep {

std::optional<Device> Destinations::one_device(std::string_view call) const {
  if (!name_) return device_;
  try {
    return parse_device(*name_);
  } catch (const Error& error) {
    detail::throw_error(error.code(), "{}: as destination, {}", call, error.text());
  }
}

}  // namespace lockstep
