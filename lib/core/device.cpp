// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/device.hpp>

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>

namespace lockstep {
namespace {

/// Parses all of `text` as a number that is not negative, and stores it in `number`. Returns false if this is not
/// possible.
bool read_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0;
}

/// The parts of the name of a device, as they are written: "/job:worker/replica:0/task:1/device:GPU:0".
struct DeviceName {
  std::string_view job;
  std::optional<int> replica;
  std::optional<int> task;
  std::string_view device;  // "GPU:0"
};

/// Returns nullopt if `text` does not have the form of a name. Does not check `device`.
std::optional<DeviceName> split_name(std::string_view text) {
  DeviceName name;
  for (;;) {
    if (text.starts_with('/')) text.remove_prefix(1);
    const std::size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    const std::size_t colon = std::min(part.find(':'), part.size());
    const std::string_view key = part.substr(0, colon);
    const std::string_view value = part.substr(std::min(colon + 1, part.size()));
    if (slash == std::string_view::npos) {
      name.device = key == "device" ? value : part;
      return name;
    }
    text.remove_prefix(slash);
    if (key == "job" && name.job.empty() && !value.empty()) {
      name.job = value;
      continue;
    }
    std::optional<int>* const number = key == "replica" ? &name.replica : key == "task" ? &name.task : nullptr;
    int parsed = 0;
    if (number == nullptr || number->has_value() || !read_number(value, parsed)) return std::nullopt;
    *number = parsed;
  }
}

/// Throws Error(invalid_argument) if `name`, which is written as `text`, is the name of a device of another process.
void require_here(const DeviceName& name, std::string_view text, const DeviceTask& here) {
  const bool is_any_process = name.job == "localhost";
  const bool is_own_job = is_any_process || name.job.empty() || here.job.empty() || name.job == here.job;
  const bool is_own_task = name.task.value_or(is_any_process ? 0 : here.index) == (is_any_process ? 0 : here.index);
  if (!is_own_job || !is_own_task) {
    const std::string job = here.job.empty() ? "" : fmt::format(" of job {}", here.job);
    detail::throw_error(
        Code::invalid_argument,
        "\"{}\" names a device of another task, but this rank is task {}{}; name a device of this rank, "
        "without job and task, such as cpu:0",
        text, here.index, job);
  }
  if (name.replica.value_or(0) != 0) {
    detail::throw_error(Code::invalid_argument,
                        "\"{}\" names a device of replica {}, but each task has only replica 0; name a device without "
                        "replica, such as cpu:0",
                        text, *name.replica);
  }
}

}  // namespace

std::string to_string(Device device) {
  std::string text = fmt::format("{}:{}", device.kind == DeviceKind::cpu ? "cpu" : "gpu", device.index);
  if (device.logical != 0) text += fmt::format("#{}", device.logical);
  return text;
}

Device parse_device(std::string_view text, const DeviceTask& here) {
  const auto refuse = [text] {
    detail::throw_error(
        Code::invalid_argument,
        "\"{}\" is not the name of a device; a name is cpu:N, gpu:N, gpu:N#M for logical device M of gpu:N, or "
        "/device:GPU:N, such as gpu:0, after /job:NAME/replica:0/task:N, if anything",
        text);
  };
  const std::optional<DeviceName> name = split_name(text);
  if (!name) refuse();
  const std::string_view part = name->device;
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
  require_here(*name, text, here);
  return device;
}

}  // namespace lockstep
