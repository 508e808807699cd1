// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/directory.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace lockstep::detail {
namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view unfinished_prefix = ".unfinished-";
constexpr std::string_view removed_prefix = ".removed-";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* const begin = name.data() + step_prefix.size();
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || stopped != end || step < 0) return std::nullopt;
  return step;
}

/// The names in a directory.
std::vector<std::string> names_in(const Path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    names.push_back(entries->path().filename().string());
  if (error) throw_system_error("read directory", directory, error.value());
  return names;
}

/// Renames the checkpoint before removing its files, so that a kill in between does not leave an incomplete checkpoint.
void remove_checkpoint(const Path& directory, std::int64_t step) {
  const Path from = step_path(directory, step);
  const Path removed = directory / (std::string(removed_prefix) + from.filename().string());
  remove_quietly(removed);
  std::error_code error;
  std::filesystem::rename(from, removed, error);
  if (!error) remove_quietly(removed);
}

}  // namespace

Path step_path(const Path& directory, std::int64_t step) {
  return directory / fmt::format("{}{:012}", step_prefix, step);
}

Path unfinished_path(const Path& directory, std::int64_t step, std::uint64_t nonce) {
  return directory / fmt::format("{}{:012}-{:016x}", unfinished_prefix, step, nonce);
}

std::vector<std::int64_t> steps_in(const Path& directory) {
  std::error_code error;
  std::vector<std::int64_t> steps;
  if (!std::filesystem::exists(directory, error)) {
    if (error) throw_system_error("read directory", directory, error.value());
    return steps;
  }
  for (const std::string& name : names_in(directory)) {
    const auto step = step_of(name);
    if (step && std::filesystem::exists(directory / name / manifest_name, error)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void commit(const Path& directory, const Path& from, std::int64_t step, int keep) {
  sync_directory(from);
  put_in_place(from, step_path(directory, step));
  sync_directory(directory);
  if (keep > 0) {
    std::vector<std::int64_t> steps = steps_in(directory);
    std::erase(steps, step);
    const auto others = static_cast<std::size_t>(keep - 1);
    for (std::size_t i = 0; i + others < steps.size(); ++i) remove_checkpoint(directory, steps[i]);
  }
  for (const std::string& name : names_in(directory)) {
    if (name.starts_with(unfinished_prefix) || name.starts_with(removed_prefix)) remove_quietly(directory / name);
  }
}

}  // namespace lockstep::detail
