// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Control messages: small messages between ranks, separate from the data of operations.

#pragma once

#include <lockstep/base/error.hpp>

#include "collectives/call/descriptor.hpp"
#include "transport/transport.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace lockstep::detail {

/// The scope of a failure.
enum class Ends : std::uint8_t {
  epoch,              ///< all operations that are posted
  recovery,           ///< all operations that are posted; the failed rank was in Communicator::recover
  job,                ///< the job: as a rule, the failed rank prints the reason and aborts the job
  communicator,       ///< the communicator, on all ranks: a rank is gone
  communicator_here,  ///< the communicator; the ranks that get the message inform the other ranks
};

/// The failure that ends an epoch. Every rank throws it.
struct Failure {
  Code code = Code::unavailable;
  std::string text;
  ErrorContext context;
  Ends ends = Ends::epoch;

  /// Whether the communicator does not work after the failure.
  [[nodiscard]] bool is_loss() const noexcept { return ends >= Ends::job; }
  [[nodiscard]] Error error() const { return Error(code, text, context); }
};

/// The end of an epoch on one rank.
struct EpochEnd {
  std::int64_t sequence = 0;  ///< the first operation that the rank does not complete
  Failure failure;
};

/// A failure as bytes, for messages and for the memory of a node. Long texts are cut.
struct FailureRecord {
  static constexpr std::size_t text_bytes = 480;

  std::int64_t sequence = -1;  // ErrorContext::sequence
  std::int32_t rank = -1;      // ErrorContext::rank
  std::int32_t replica = -1;
  Code code = Code::unavailable;
  Ends ends = Ends::epoch;
  std::array<char, Descriptor::name_bytes> operation{};
  std::array<char, text_bytes> text{};
};
static_assert(std::is_trivially_copyable_v<FailureRecord>);

[[nodiscard]] FailureRecord record_of(const Failure& failure);
[[nodiscard]] Failure failure_of(const FailureRecord& record);
[[nodiscard]] std::string text_of(const FailureRecord& record);

enum class ControlKind : std::uint32_t {
  header,     ///< part of the agreement on one operation: AgreementHeader
  summary,    ///< part of the agreement if calls differ
  heartbeat,  ///< the sender waits in this operation; sent only if the wait is long
  status,     ///< the sender waits in an operation of another communicator; an answer to heartbeats
  abort,      ///< the sender ends an epoch
  death,      ///< a process of the sender's node has ended; `failure` has its rank and the text
  leave,      ///< the sender has destroyed its communicator; goes to the ranks that would wait for the sender
  // The kinds below concern one send and the matching receive, and have no epoch; `sequence` is the number of the send.
  offer,       ///< by the sending rank: the descriptor of the send; the data of a small one follows
  acceptance,  ///< by the receiving rank: the descriptors agree; it has the data, or is ready for the transfer
  refusal,     ///< by the receiving rank, with the reason: the receive does not take place
  withdrawal,  ///< by the sending rank, with the reason: the send, offered or not, does not take place
};

/// The descriptor of one rank.
struct Side {
  std::int32_t rank = -1;  ///< -1: none
  Descriptor descriptor;
};

/// A summary of the calls of a set of ranks: the call of the lowest rank, and the call of the lowest rank that makes a
/// different call. Merging two summaries gives the summary of the union of both sets, even if the sets overlap.
struct Summary {
  Side lowest;
  Side differing;
};

/// The call of a set of ranks, and whether all these ranks make it. In the message, the header is followed by the data
/// that travels with the agreement.
struct AgreementHeader {
  ControlKind kind = ControlKind::header;
  std::uint32_t round = 0;
  std::uint64_t epoch = 0;
  std::int64_t sequence = 0;
  std::uint64_t hash = 0;     ///< hash of the common descriptor, if these ranks agree
  std::uint64_t differs = 0;  ///< 1 if these ranks make different calls, else 0
};
static_assert(std::is_trivially_copyable_v<AgreementHeader>);

/// A control message of any other kind. Only the members that its kind uses are sent (see bytes_of).
struct ControlMessage {
  ControlKind kind = ControlKind::summary;
  std::uint32_t round = 0;  // in a summary: its round; in a heartbeat: the sender's progress in the operation
  std::uint64_t epoch = 0;
  std::int64_t sequence = 0;
  // In a heartbeat: see ControlChannel::Heartbeat; in a status, `awaited`.
  bool is_probe = false;
  bool has_data = false;  // in an offer: the data of the send follows
  std::int32_t traced = -1;
  static constexpr std::size_t most_awaited = 8;
  std::array<std::int32_t, most_awaited> awaited{-1, -1, -1, -1, -1, -1, -1, -1};
  // In an offer: NodeAddress of the MessageRing for later messages; 0 if the ranks share no memory.
  std::uint64_t ring = 0;
  // In an abort, death, leave, refusal or withdrawal; in a status, its text is the operation in which the sender waits.
  FailureRecord failure;
  // In a summary; in an offer, `lowest` has the descriptor of the send.
  Summary summary;
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(ControlMessage) <= most_message_bytes);

/// The bytes of `control` that are sent: its first members.
[[nodiscard]] std::span<const std::byte> bytes_of(const ControlMessage& control);
/// The message of which `bytes` was sent; `bytes` is well-formed, and no AgreementHeader.
[[nodiscard]] ControlMessage control_message_of(std::span<const std::byte> bytes);
/// The data that follows the message in these bytes.
[[nodiscard]] std::span<const std::byte> data_of(std::span<const std::byte> bytes);

/// Whether `bytes`, which a rank of `ranks` may have sent, is an AgreementHeader with its data, or a ControlMessage,
/// with values that exist.
[[nodiscard]] bool is_well_formed(std::span<const std::byte> bytes, int ranks);

[[nodiscard]] ControlMessage status_message(std::uint64_t epoch, std::int64_t sequence, const std::string& what);
[[nodiscard]] ControlMessage abort_message(std::uint64_t epoch, const EpochEnd& end);

/// The summary of the ranks of `a` and `b` together.
[[nodiscard]] Summary merge(const Summary& a, const Summary& b);

}  // namespace lockstep::detail
