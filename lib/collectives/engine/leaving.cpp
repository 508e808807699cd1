// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/leaving.hpp"

#include "base/log.hpp"
#include "collectives/engine/message_agreement.hpp"

#include <fmt/format.h>

#include <exception>

namespace lockstep::detail {
namespace {

bool can_send(const Transport& transport) {
  return transport.is_alive() && (transport.has_free_threads() || transport.this_thread_may_call());
}

}  // namespace

void Leaving::depart(Departure how) noexcept {
  NodeGroup* const group = transport_.sharing_group();
  // if all ranks share memory, they see the departure in that memory, without a message
  if (how == Departure::by_exception && transport_.node_group() == nullptr)
    end_for_ever("an exception has destroyed its communicator or strategy");
  if (!epoch_.lost())
    send_leave(how == Departure::by_finalize ? "finalized MPI" : "destroyed its communicator or strategy");
  if (group != nullptr) group->depart(how);
}

/// Sends one message that says what this rank has done to each rank that waits for a message of this rank in every
/// agreement (Agreement::header_peers); after a failure, to all ranks. A rank that gets the message while it waits in
/// an operation ends that operation on all ranks. If no rank begins another operation, the messages have no effect.
void Leaving::send_leave(std::string_view what) noexcept {
  try {
    if (!can_send(transport_)) return;
    auto [targets, sources] = agreement_.header_peers();
    if (epoch_.number() > 0) {  // each rank waits for the last message of each rank that may have sent it a failure
      targets.clear();
      for (int rank = 0; rank < transport_.size(); ++rank) {
        if (rank != transport_.rank()) targets.push_back(rank);
      }
      sources = targets;
    }
    const Failure failure{Code::unavailable, fmt::format("rank {} has {}", transport_.rank(), what),
                          queue_.context_of(transport_.rank()), Ends::communicator_here};
    transport_.expect_last_messages(sources);
    for (const int target : targets) control_.send_leave(target, epoch_.number(), {queue_.sequence(), failure});
  } catch (const std::exception& error) {
    log_warning("{}: the other ranks do not learn that this rank leaves: {}", queue_.name(), error.what());
  }
}

void Leaving::end_for_ever(std::string_view text) noexcept {
  try {
    if (transport_.size() == 1 || epoch_.lost() || !can_send(transport_)) return;
    epoch_.end_everywhere({Code::unavailable, fmt::format("rank {} failed: {}", transport_.rank(), text),
                           queue_.context_of(transport_.rank()), Ends::job});
  } catch (const std::exception& error) {
    log_warning("{}: the other ranks do not get the reason for the end of this rank: {}", queue_.name(), error.what());
  }
}

void leave_before_begin(Transport& transport, std::string_view name, std::string_view reason) noexcept {
  try {
    if (can_send(transport) && transport.node_group() == nullptr) {
      ControlChannel control(transport);
      const MessageAgreement agreement(control, transport.local_group(), transport.rank(), transport.node_leaders());
      const auto [targets, sources] = agreement.header_peers();
      const ErrorContext here{transport.rank(), -1, {}, 0};
      const Failure failure{Code::unavailable,
                            fmt::format("rank {} failed in the creation: {}", transport.rank(), reason), here,
                            Ends::communicator_here};
      transport.expect_last_messages(sources);
      for (const int target : targets) control.send_leave(target, 0, {0, failure});
    }
  } catch (const std::exception& error) {
    log_warning("{}: the other ranks do not learn that this rank cannot create it: {}", name, error.what());
  }
  if (NodeGroup* const group = transport.sharing_group()) group->depart(Departure::by_exception);
}

}  // namespace lockstep::detail
