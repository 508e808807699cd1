// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/radices.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace lockstep::detail {
namespace {

constexpr std::string_view rule =
    "a pattern is a list of stages separated by dots, nearest ranks first: n (the ranks of a node; first stage only), "
    "K (each group of K ranks splits the data), rK (each of K ranks gets all of it), fK (as rK, repeated until all "
    "ranks are joined; last stage only); K is an integer from 2 to 1000000, or 0 for all remaining ranks (not in fK, "
    "and in the last stage only); no stage K may follow rK or fK; example: n.4.f4";

[[noreturn]] void refuse(std::string_view text, std::string_view part) {
  throw_error(Code::invalid_argument, "radices \"{}\": \"{}\" is invalid; {}", text, part, rule);
}

int number(std::string_view text, std::string_view part, std::string_view digits) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0 || value == 1 || value > 1'000'000)
    refuse(text, part);
  return value;
}

}  // namespace

RadixPattern::RadixPattern(std::string_view text) {
  bool replicates = false;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    // after a stage of all remaining ranks, no ranks remain for another stage
    if (!stages_.empty() && stages_.back().kind != StageKind::node && stages_.back().radix == 0) refuse(text, part);
    if (part == "n") {
      if (begin != 0) refuse(text, part);
      stages_.push_back({StageKind::node, 0});
    } else if (part.starts_with('f')) {
      repeated_ = number(text, part, part.substr(1));
      if (repeated_ == 0 || end != text.size()) refuse(text, part);
    } else if (part.starts_with('r')) {
      replicates = true;
      stages_.push_back({StageKind::replicate, number(text, part, part.substr(1))});
    } else {
      if (replicates) refuse(text, part);
      stages_.push_back({StageKind::split, number(text, part, part)});
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
