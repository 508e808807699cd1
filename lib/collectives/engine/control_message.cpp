// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/control_message.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

namespace lockstep::detail {
namespace {

template <std::size_t n>
void copy_text(const std::string& text, std::array<char, n>& target) {
  const std::size_t length = std::min(text.size(), n - 1);
  std::copy_n(text.begin(), length, target.begin());
  target[length] = '\0';
}

template <std::size_t n>
std::string text_in(const std::array<char, n>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
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

/// The size of the members that are sent in a message of this kind.
std::size_t bytes_of_kind(ControlKind kind) {
  switch (kind) {
    case ControlKind::heartbeat:
    case ControlKind::acceptance: return offsetof(ControlMessage, failure);
    case ControlKind::status:
    case ControlKind::abort:
    case ControlKind::death:
    case ControlKind::leave:
    case ControlKind::refusal:
    case ControlKind::withdrawal: return offsetof(ControlMessage, summary);
    case ControlKind::offer: return offsetof(ControlMessage, summary) + offsetof(Summary, differing);
    case ControlKind::header:
    case ControlKind::summary: break;
  }
  return sizeof(ControlMessage);
}

/// The size of the message at the beginning of `bytes`.
std::size_t message_bytes(std::span<const std::byte> bytes) {
  ControlKind kind{};
  std::memcpy(&kind, bytes.data(), sizeof(kind));
  return bytes_of_kind(kind);
}

}  // namespace

std::span<const std::byte> bytes_of(const ControlMessage& control) {
  return std::as_bytes(std::span(&control, 1)).first(bytes_of_kind(control.kind));
}

ControlMessage control_message_of(std::span<const std::byte> bytes) {
  ControlMessage control;
  std::memcpy(&control, bytes.data(), message_bytes(bytes));
  return control;
}

std::span<const std::byte> data_of(std::span<const std::byte> bytes) { return bytes.subspan(message_bytes(bytes)); }

bool is_well_formed(std::span<const std::byte> bytes, int ranks) {
  ControlKind kind{};
  if (bytes.size() < sizeof(kind)) return false;
  std::memcpy(&kind, bytes.data(), sizeof(kind));
  if (kind == ControlKind::header) return bytes.size() >= sizeof(AgreementHeader);
  if (kind > ControlKind::withdrawal || bytes.size() < bytes_of_kind(kind)) return false;
  const auto is_bool = [&](std::size_t at) { return std::to_integer<int>(bytes[at]) <= 1; };
  if (!is_bool(offsetof(ControlMessage, is_probe)) || !is_bool(offsetof(ControlMessage, has_data))) return false;
  const ControlMessage control = control_message_of(bytes);
  // the ranks of a status are of another communicator, which may be larger
  const int end = kind == ControlKind::status ? std::numeric_limits<int>::max() : ranks;
  const auto is_rank = [end](int rank) { return -1 <= rank && rank < end; };
  const bool may_have_data = kind == ControlKind::offer && control.has_data;
  return (may_have_data || data_of(bytes).empty()) && is_rank(control.traced) && control.failure.rank >= -1 &&
         control.failure.code <= Code::internal && control.failure.ends <= Ends::communicator_here &&
         std::all_of(control.awaited.begin(), control.awaited.end(), is_rank);
}

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

std::string text_of(const FailureRecord& record) { return text_in(record.text); }

Failure failure_of(const FailureRecord& record) {
  return {record.code,
          text_of(record),
          {record.rank, record.replica, text_in(record.operation), record.sequence},
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
