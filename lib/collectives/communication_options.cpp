// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/communication_options.hpp>

#include "base/check.hpp"
#include "core/enum_names.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> implementation_names{"AUTO", "RING", "NCCL"};
constexpr double most_seconds = 1e9;

}  // namespace

std::string_view to_string(CommunicationImplementation implementation) noexcept {
  return detail::name_of(implementation, implementation_names);
}

CommunicationImplementation parse_communication_implementation(std::string_view name) {
  if (const auto found = detail::find_enumerator<CommunicationImplementation>(name, implementation_names))
    return *found;
  detail::throw_error(Code::invalid_argument,
                      "CommunicationOptions: implementation \"{}\" is unknown; give AUTO, RING or NCCL", name);
}

void PackBytes::refuse(std::int64_t bytes) {
  detail::throw_error(Code::invalid_argument,
                      "CommunicationOptions: bytes_per_pack is {}; it must be at least 0 (0: everything in one pack)",
                      bytes);
}

void TimeoutSeconds::refuse(double seconds) {
  detail::throw_error(
      Code::invalid_argument,
      "CommunicationOptions: timeout_seconds is {}; it must be positive (std::nullopt: the timeout of the strategy)",
      seconds);
}

CommunicationOptions CommunicationOptions::merged(const CommunicationOptions& other) const {
  CommunicationOptions result = *this;
  if (other.bytes_per_pack != 0) result.bytes_per_pack = other.bytes_per_pack;
  if (other.timeout_seconds.has_value()) result.timeout_seconds = other.timeout_seconds;
  if (other.implementation != CommunicationImplementation::automatic) result.implementation = other.implementation;
  result.where = other.where;
  return result;
}

std::optional<std::chrono::milliseconds> CommunicationOptions::deadline() const {
  if (!timeout_seconds.has_value()) return std::nullopt;
  const double ms = std::ceil(1000 * std::min(*timeout_seconds, most_seconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

}  // namespace lockstep
