// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks say to one another beside data.

#pragma once

#include <lockstep/base/error.hpp>

#include "collectives/call/descriptor.hpp"
#include "transport/transport.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace lockstep::detail {

/// Why the common course ended, as every rank will hear it.
struct Failure {
  Code code = Code::unavailable;
  std::string text;
  ErrorContext context;

  [[nodiscard]] Error error() const { return Error(code, text, context); }
};

enum class ControlKind : std::uint32_t {
  header,     ///< part of the agreement on one operation
  roll_call,  ///< "I am in this operation": sent only when it takes long
  elsewhere,  ///< "I wait in another communicator, in this": sent only when that takes long
  failure,    ///< the end of an epoch
  // between two ranks, without epochs; `sequence` is the number of the message
  offer,       ///< "I send you this"
  acceptance,  ///< "send it"
  refusal,     ///< "do not", and why
  withdrawal,  ///< "I do not send it after all", and why
};

/// One rank's descriptor.
struct Side {
  std::int32_t rank = -1;  ///< -1: nobody
  Descriptor descriptor;
};

/// What is known of a set of ranks: the lowest one, and the lowest one that disagrees with it. Merging two summaries
/// gives the summary of both sets together, in whatever order and however often they are merged.
struct Summary {
  Side lowest;
  Side differing;
};

struct ControlMessage {
  static constexpr std::size_t text_bytes = 480;

  ControlKind kind = ControlKind::header;
  std::uint32_t round = 0;
  std::uint64_t epoch = 0;
  std::int64_t sequence = 0;
  Summary summary;                // header
  Code code = Code::unavailable;  // failure, and what follows
  std::int32_t culprit = -1;
  std::int32_t replica = -1;
  std::int64_t failed_sequence = -1;
  std::array<char, Descriptor::name_bytes> operation{};
  std::array<char, text_bytes> text{};
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(ControlMessage) <= message_bytes);

[[nodiscard]] Message encode(const ControlMessage& control);
[[nodiscard]] ControlMessage decode(const Message& message);
[[nodiscard]] ControlMessage whereabouts_message(std::uint64_t epoch, std::int64_t sequence, const std::string& what);
/// `sequence`: the first operation that the sender does not complete.
[[nodiscard]] ControlMessage failure_message(std::uint64_t epoch, std::int64_t sequence, const Failure& failure);
[[nodiscard]] Failure failure_of(const ControlMessage& control);

/// The summary of the ranks of `a` and `b` together.
[[nodiscard]] Summary merge(const Summary& a, const Summary& b);

}  // namespace lockstep::detail
