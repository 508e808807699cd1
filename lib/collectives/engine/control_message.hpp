// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Small messages between ranks, beside their data.

#pragma once

#include <lockstep/base/error.hpp>

#include "collectives/call/descriptor.hpp"
#include "transport/transport.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace lockstep::detail {

/// What a failure ends.
enum class Ends : std::uint8_t {
  epoch,              ///< the operations that are under way
  recovery,           ///< the same, among them Communicator::recover on the rank that failed
  job,                ///< all: the rank that failed prints the reason and aborts the job
  communicator,       ///< the communicator, on all ranks: a rank is gone
  communicator_here,  ///< the same, on this rank, which tells the others
};

/// The failure that ends an epoch, as every rank throws it.
struct Failure {
  Code code = Code::unavailable;
  std::string text;
  ErrorContext context;
  Ends ends = Ends::epoch;

  /// Whether the communicator does not work any more.
  [[nodiscard]] bool is_loss() const noexcept { return ends >= Ends::job; }
  [[nodiscard]] Error error() const { return Error(code, text, context); }
};

enum class ControlKind : std::uint32_t {
  header,     ///< part of the agreement on one operation: AgreementHeader
  summary,    ///< part of it if calls differ
  heartbeat,  ///< the sender waits in this operation; sent only when that takes long
  status,     ///< the sender waits in an operation of another communicator; answers a heartbeat
  abort,      ///< the end of an epoch
  leave,      ///< the sender has destroyed its communicator; sent to the ranks that would wait for it
  // between two ranks, without epochs; `sequence` is the number of the send and receive
  offer,       ///< the sender's descriptor
  acceptance,  ///< by the receiver, which agrees
  refusal,     ///< by the receiver, with the reason
  withdrawal,  ///< by the sender, with the reason: the send that was offered or is expected does not take place
};

/// One rank's descriptor.
struct Side {
  std::int32_t rank = -1;  ///< -1: none
  Descriptor descriptor;
};

/// The descriptors of a set of ranks, as far as they matter: the lowest rank, and the lowest one that disagrees with
/// it. Merging two summaries gives the summary of both sets together, in any order and any number of times.
struct Summary {
  Side lowest;
  Side differing;
};

/// What a set of ranks has called, and whether they agree. The data that travels with the agreement follows it.
struct AgreementHeader {
  ControlKind kind = ControlKind::header;
  std::uint32_t round = 0;
  std::uint64_t epoch = 0;
  std::int64_t sequence = 0;
  std::uint64_t hash = 0;     ///< of the descriptor of each of these ranks, if they agree
  std::uint64_t differs = 0;  ///< whether they do not
};
static_assert(std::is_trivially_copyable_v<AgreementHeader>);

/// Every other message.
struct ControlMessage {
  static constexpr std::size_t text_bytes = 480;

  ControlKind kind = ControlKind::summary;
  Ends ends = Ends::epoch;  // of an abort
  std::uint32_t round = 0;  // of a summary; in a heartbeat, the sender's progress in the operation
  std::uint64_t epoch = 0;
  std::int64_t sequence = 0;
  Summary summary;
  Code code = Code::unavailable;  // abort, leave, refusal, withdrawal; and what follows it here
  std::int32_t culprit = -1;      // in a heartbeat: a rank to which a debugger is attached
  std::int32_t replica = -1;
  std::int32_t awaited = -1;  // in a heartbeat: a rank whose data the sender awaits
  std::int64_t failed_sequence = -1;
  std::array<char, Descriptor::name_bytes> operation{};
  std::array<char, text_bytes> text{};
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(ControlMessage) <= most_message_bytes);

[[nodiscard]] ControlMessage status_message(std::uint64_t epoch, std::int64_t sequence, const std::string& what);
/// `sequence`: the first operation that the sender does not complete.
[[nodiscard]] ControlMessage abort_message(std::uint64_t epoch, std::int64_t sequence, const Failure& failure);
[[nodiscard]] Failure failure_of(const ControlMessage& control);

/// The summary of the ranks of `a` and `b` together.
[[nodiscard]] Summary merge(const Summary& a, const Summary& b);

}  // namespace lockstep::detail
