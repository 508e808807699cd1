// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/radices.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

namespace lockstep::detail {
namespace {

/// The number of a stage, or nothing if `digits` is not a valid number.
std::optional<int> number(std::string_view digits) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0 || value == 1 || value > 1'000'000)
    return std::nullopt;
  return value;
}

}  // namespace

RadixPattern::RadixPattern(std::string_view text, std::string_view argument) {
  bool replicates = false;
  std::string_view part;
  const auto require = [&](bool is_met, std::string_view rule) {
    if (is_met) return;
    throw_error(Code::invalid_argument, "{}\"{}\": stage \"{}\" is invalid: {}; an example is n.4.f4", argument, text,
                part, rule);
  };
  const auto radix = [&](std::string_view digits) {
    const std::optional<int> value = number(digits);
    require(value.has_value(),
            "a stage is n, K, rK or fK, where K is an integer from 2 to 1000000, or 0 in a last stage K or rK");
    return value.value_or(0);
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    part = text.substr(begin, end - begin);
    const bool is_joined = !stages_.empty() && stages_.back().kind != StageKind::node && stages_.back().radix == 0;
    require(!is_joined, "no stage can follow 0 or r0, which stand for all remaining ranks");
    if (part == "n") {
      require(begin == 0, "n must be the first stage");
      stages_.push_back({StageKind::node, 0});
    } else if (part.starts_with('f')) {
      repeated_ = radix(part.substr(1));
      require(repeated_ != 0, "K in fK must be an integer from 2 to 1000000");
      require(end == text.size(), "fK must be the last stage");
    } else if (part.starts_with('r')) {
      replicates = true;
      stages_.push_back({StageKind::replicate, radix(part.substr(1))});
    } else {
      const int value = radix(part);
      require(!replicates, "K cannot follow rK");
      stages_.push_back({StageKind::split, value});
    }
    begin = end + 1;
  }
}

Radices RadixPattern::stages(int ranks, int nodes) const {
  Radices result;
  int groups = ranks;
  bool replicates = false;
  for (StageRadix stage : stages_) {
    if (stage.kind == StageKind::node) {
      if (nodes < ranks) result.push_back(stage);
      groups = nodes;
      continue;
    }
    if (groups == 1) break;
    if (stage.radix == 0 || stage.radix > groups) stage.radix = groups;
    replicates = stage.kind == StageKind::replicate;
    groups = groups_above(stage, groups);
    result.push_back(stage);
  }
  while (repeated_ != 0 && groups > 1) {
    result.push_back({StageKind::replicate, std::min(repeated_, groups)});
    groups = groups_above(result.back(), groups);
  }
  if (groups > 1) result.push_back({replicates ? StageKind::replicate : StageKind::split, groups});
  return result;
}

std::string to_string(const Radices& radices) {
  std::string text;
  for (const StageRadix& stage : radices) {
    if (!text.empty()) text += '.';
    if (stage.kind == StageKind::node) {
      text += 'n';
    } else {
      text += fmt::format("{}{}", stage.kind == StageKind::replicate ? "r" : "", stage.radix);
    }
  }
  return text;
}

}  // namespace lockstep::detail
