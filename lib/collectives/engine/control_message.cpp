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
  copy_text(what, control.failure.text);
  return control;
}

ControlMessage abort_message(std::uint64_t epoch, const EpochEnd& end) {
  ControlMessage control;
  control.kind = ControlKind::abort;
  control.epoch = epoch;
  control.sequence = end.sequence;
  control.failure = record_of(end.failure);
  return control;
}

FailureRecord record_of(const Failure& failure) {
  FailureRecord record;
  record.sequence = failure.context.sequence;
  record.rank = failure.context.rank;
  record.replica = failure.context.replica;
  record.code = failure.code;
  record.ends = failure.ends;
  copy_text(failure.context.operation, record.operation);
  copy_text(failure.text, record.text);
  return record;
}

Failure failure_of(const FailureRecord& record) {
  return {record.code,
          record.text.data(),
          {record.rank, record.replica, record.operation.data(), record.sequence},
          record.ends};
}

Summary merge(const Summary& a, const Summary& b) {
  const bool a_is_lower = b.lowest.rank < 0 || (a.lowest.rank >= 0 && a.lowest.rank <= b.lowest.rank);
  Summary result;
  result.lowest = a_is_lower ? a.lowest : b.lowest;
  result.differing = lowest_differing(result.lowest, {&a.lowest, &a.differing, &b.lowest, &b.differing});
  return result;
}

}  // namespace lockstep::detail
