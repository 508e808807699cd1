// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/control_message.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {
namespace {

template <std::size_t n>
void copy_text(const std::string& text, std::array<char, n>& target) {
  const std::size_t length = std::min(text.size(), n - 1);
  std::copy_n(text.begin(), length, target.begin());
  target[length] = '\0';
}

/// Of all `sides` that disagree with `reference`, the one of the lowest rank.
Side lowest_differing(const Side& reference, std::initializer_list<const Side*> sides) {
  Side found;
  for (const Side* side : sides) {
    if (side->rank < 0 || side->descriptor.hash == reference.descriptor.hash) continue;
    if (found.rank < 0 || side->rank < found.rank) found = *side;
  }
  return found;
}

}  // namespace

ControlMessage status_message(std::uint64_t epoch, std::int64_t sequence, const std::string& what) {
  ControlMessage control;
  control.kind = ControlKind::status;
  control.epoch = epoch;
  control.sequence = sequence;
  copy_text(what, control.text);
  return control;
}

ControlMessage abort_message(std::uint64_t epoch, std::int64_t sequence, const Failure& failure) {
  ControlMessage control;
  control.kind = ControlKind::abort;
  control.ends = failure.ends;
  control.epoch = epoch;
  control.sequence = sequence;
  control.code = failure.code;
  control.culprit = failure.context.rank;
  control.replica = failure.context.replica;
  control.failed_sequence = failure.context.sequence;
  copy_text(failure.context.operation, control.operation);
  copy_text(failure.text, control.text);
  return control;
}

Failure failure_of(const ControlMessage& control) {
  return {control.code,
          control.text.data(),
          {control.culprit, control.replica, control.operation.data(), control.failed_sequence},
          control.ends};
}

Summary merge(const Summary& a, const Summary& b) {
  const bool a_is_lower = b.lowest.rank < 0 || (a.lowest.rank >= 0 && a.lowest.rank <= b.lowest.rank);
  Summary result;
  result.lowest = a_is_lower ? a.lowest : b.lowest;
  result.differing = lowest_differing(result.lowest, {&a.lowest, &a.differing, &b.lowest, &b.differing});
  return result;
}

}  // namespace lockstep::detail
