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

/// The part of a device name after the last slash, without "device:". For
/// "/job:localhost/replica:0/task:0/device:GPU:0" this is "GPU:0".
std::string_view last_part(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash != std::string_view::npos) text.remove_prefix(slash + 1);
  constexpr std::string_view prefix = "device:";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return text;
}

/// Parses all of `text` as a number that is not negative, and stores it in `number`. Returns false if this is not
/// possible.
bool read_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0;
}

}  // namespace

std::string to_string(Device device) {
  std::string text = fmt::format("{}:{}", device.kind == DeviceKind::cpu ? "cpu" : "gpu", device.index);
  if (device.logical != 0) text += fmt::format("#{}", device.logical);
  return text;
}

Device parse_device(std::string_view text) {
  const auto refuse = [text] {
    detail::throw_error(
        Code::invalid_argument,
        "\"{}\" is not the name of a device; a name is cpu:N, gpu:N, gpu:N#M for logical device M of gpu:N, or "
        "/device:GPU:N, such as gpu:0",
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
    const std::string_view numbers = part.substr(colon + 1);
    const std::size_t sharp = numbers.find('#');
    if (!read_number(numbers.substr(0, sharp), device.index)) refuse();
    if (sharp != std::string_view::npos &&
        (device.kind != DeviceKind::gpu || !read_number(numbers.substr(sharp + 1), device.logical))) {
      refuse();
    }
  }
  return device;
}

}  // namespace lockstep
