// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/row_agreement.hpp"

#include "base/phrases.hpp"
#include "schedule/dissemination.hpp"

#include <fmt/format.h>

#include <cstring>
#include <tuple>

namespace lockstep::detail {
namespace {

std::int64_t rows(const PartBegins& begins, int part) {
  return begins[static_cast<std::size_t>(part) + 1] - begins[static_cast<std::size_t>(part)];
}

}  // namespace

void RowAgreement::start(Transport& transport, Workspace& workspace, Transfers& transfers) {
  const auto bytes_with = [&](int peer) {
    const auto pairs = static_cast<std::size_t>(layout_.count(rank_)) * static_cast<std::size_t>(layout_.count(peer));
    return items_.size() * pairs * sizeof(std::int64_t);
  };
  received_from_.resize(static_cast<std::size_t>(layout_.ranks()));
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    if (peer == rank_) continue;
    received_from_[static_cast<std::size_t>(peer)] = transfers.receive(transport, workspace, peer, bytes_with(peer));
  }
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    if (peer == rank_) continue;
    const std::span<std::byte> message = transfers.new_buffer(workspace, bytes_with(peer));
    std::byte* next = message.data();
    for (const HostItem& item : items_) {
      for (const PartBegins& begins : item.input_parts) {
        for (int target = layout_.first(peer); target < layout_.first(peer + 1); ++target) {
          const std::int64_t count = rows(begins, target);
          std::memcpy(next, &count, sizeof(count));
          next += sizeof(count);
        }
      }
    }
    transfers.send(transport, peer, message);
  }
}

bool RowAgreement::advance(Transport& transport, Workspace& workspace, Transfers& transfers) {
  if (!transfers.all_received(transport)) return false;
  if (!is_compared_) {
    for (int source = 0; source < layout_.ranks(); ++source) {
      if (source != rank_) compare(source, received_from_[static_cast<std::size_t>(source)]);
    }
    is_compared_ = true;
    send(transport, workspace, transfers);
  }
  while (round_ < dissemination_rounds(layout_.ranks())) {
    if (!transfers.all_received(transport)) return false;
    Difference received;
    std::memcpy(&received, received_, sizeof(received));
    note(received);
    ++round_;
    send(transport, workspace, transfers);
  }
  return true;
}

void RowAgreement::compare(int source, const std::byte* sent) {
  for (std::size_t item = 0; item < items_.size(); ++item) {
    for (int replica = layout_.first(source); replica < layout_.first(source + 1); ++replica) {
      for (int local = 0; local < layout_.count(rank_); ++local) {
        std::int64_t count = 0;
        std::memcpy(&count, sent, sizeof(count));
        sent += sizeof(count);
        const std::int64_t expected = rows(items_[item].output_parts[static_cast<std::size_t>(local)], replica);
        if (count == expected) continue;
        note({replica, layout_.first(rank_) + local, static_cast<std::uint32_t>(item), count, expected});
      }
    }
  }
}

void RowAgreement::note(const Difference& difference) {
  if (difference.source < 0) return;
  const auto place = [](const Difference& d) { return std::tuple(d.source, d.target, d.item); };
  if (lowest_.source < 0 || place(difference) < place(lowest_)) lowest_ = difference;
}

void RowAgreement::send(Transport& transport, Workspace& workspace, Transfers& transfers) {
  const int ranks = layout_.ranks();
  if (round_ >= dissemination_rounds(ranks)) return;
  received_ = transfers.receive(transport, workspace, dissemination_source(rank_, round_, ranks), sizeof(Difference));
  const std::span<std::byte> message = transfers.new_buffer(workspace, sizeof(Difference));
  std::memcpy(message.data(), &lowest_, sizeof(Difference));
  transfers.send(transport, dissemination_target(rank_, round_, ranks), message);
}

std::optional<Failure> RowAgreement::failure() const {
  if (lowest_.source < 0) return std::nullopt;
  const int source_rank = layout_.rank_of(lowest_.source);
  return Failure{
      Code::mismatch,
      fmt::format(
          "{}replica {} (rank {}) sends {} to replica {} (rank {}), but receive_rows of that replica has {}; the "
          "two numbers must be equal",
          items_.size() > 1 ? fmt::format("item {}: ", lowest_.item) : "", lowest_.source, source_rank,
          counted(lowest_.sent, "row"), lowest_.target, layout_.rank_of(lowest_.target), lowest_.expected),
      {source_rank, lowest_.source, {}, -1}};
}

}  // namespace lockstep::detail
