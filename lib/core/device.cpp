// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/device.hpp>

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lockstep {
namespace {

/// The last part of "/job:localhost/replica:0/task:0/device:GPU:0", without "device:".
std::string_view last_part(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash != std::string_view::npos) text.remove_prefix(slash + 1);
  constexpr std::string_view prefix = "device:";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return text;
}

}  // namespace

std::string to_string(Device device) {
  return fmt::format("{}:{}", device.kind == DeviceKind::cpu ? "cpu" : "gpu", device.index);
}

Device parse_device(std::string_view text) {
  const auto refuse = [text] {
    detail::throw_error(
        Code::invalid_argument,
        "device \"{}\" is not of the form cpu:0, GPU:1, /device:CPU:0 or /job:localhost/replica:0/task:0/device:GPU:0",
        text);
  };
  const std::string_view part = last_part(text);
  const std::size_t colon = part.find(':');
  std::string kind(part.substr(0, colon));
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  Device device;
  if (kind == "gpu") {
    device.kind = DeviceKind::gpu;
  } else if (kind != "cpu") {
    refuse();
  }
  if (colon != std::string_view::npos) {
    const std::string_view index = part.substr(colon + 1);
    const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), device.index);
    if (error != std::errc{} || end != index.data() + index.size() || device.index < 0) refuse();
  }
  return device;
}

}  // namespace lockstep
