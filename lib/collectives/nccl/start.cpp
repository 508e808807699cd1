// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/nccl/start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace lockstep::detail {

NcclStart::NcclStart(const Descriptor& descriptor, std::shared_ptr<NcclComms> comms, const nccl::UniqueId& id,
                     int first, int all, std::chrono::milliseconds timeout)
    : Operation(descriptor), comms_(std::move(comms)), id_(id), first_(first), all_(all), timeout_(timeout) {
  static_assert(std::is_trivially_copyable_v<Report>, "it travels as bytes");
}

std::span<std::byte> NcclStart::report_of(int rank) const {
  return reports_.first(reports_.size()).subspan(static_cast<std::size_t>(rank) * sizeof(Report), sizeof(Report));
}

void NcclStart::start(Transport& transport, Workspace& workspace) {
  rank_ = transport.rank();
  reports_ = workspace.take(static_cast<std::size_t>(transport.size()) * sizeof(Report));
  for (int source = 0; source < transport.size(); ++source) {
    if (source != rank_) incoming_.push_back({source, transport.receive(source, report_of(source))});
  }
  deadline_ = std::chrono::steady_clock::now() + timeout_;
  if (comms_ == nullptr) {
    own_.outcome = Outcome::started;
    return;
  }
  try {
    comms_->start(id_, first_, all_);
  } catch (const std::exception& fault) {
    conclude_own(Outcome::failed, fault.what());
  }
}

bool NcclStart::advance(Transport& transport, Workspace& workspace) {
  read_reports(transport);
  if (own_.outcome == Outcome::open) update_own();
  if (own_.outcome == Outcome::open) return false;
  if (!is_sent_) send(transport);
  std::erase_if(outgoing_, [&](Transfer transfer) { return transport.test(transfer); });
  const bool have_all_arrived =
      std::all_of(incoming_.begin(), incoming_.end(), [](const Incoming& report) { return report.has_arrived; });
  if (!have_all_arrived || !outgoing_.empty()) return false;
  conclude(transport.size());
  workspace.give_back(std::move(reports_));
  return true;
}

void NcclStart::update_own() noexcept {
  try {
    if (comms_->are_ready()) {
      conclude_own(Outcome::started, {});
    } else if (std::chrono::steady_clock::now() > deadline_) {
      conclude_own(Outcome::failed,
                   fmt::format("timed out after {} s", std::chrono::duration<double>(timeout_).count()));
    }
  } catch (const std::exception& fault) {
    conclude_own(Outcome::failed, fault.what());
  }
}

void NcclStart::conclude_own(Outcome outcome, const std::string& text) noexcept {
  own_.outcome = outcome;
  std::copy_n(text.begin(), std::min(text.size(), own_.text.size() - 1), own_.text.begin());
  if (outcome != Outcome::started) comms_->abort();
}

void NcclStart::read_reports(Transport& transport) {
  for (Incoming& report : incoming_) {
    if (report.has_arrived || !transport.test(report.transfer)) continue;
    report.has_arrived = true;
    Outcome outcome{};
    std::memcpy(&outcome, report_of(report.source).data(), sizeof(outcome));
    if (outcome != Outcome::started && own_.outcome == Outcome::open) conclude_own(Outcome::aborted, {});
  }
}

void NcclStart::send(Transport& transport) {
  is_sent_ = true;
  std::memcpy(report_of(rank_).data(), &own_, sizeof(own_));
  for (const Incoming& peer : incoming_) outgoing_.push_back(transport.send(peer.source, report_of(rank_)));
}

void NcclStart::conclude(int ranks) {
  for (int rank = ranks - 1; rank >= 0; --rank) {  // the error names the lowest failed rank
    Report report;
    std::memcpy(&report, report_of(rank).data(), sizeof(report));
    if (report.outcome == Outcome::failed)
      why_not_ = fmt::format("cannot start NCCL on rank {}: {}", rank, report.text.data());
  }
  if (!why_not_.empty() && comms_ != nullptr) comms_->abort();
}

std::vector<int> NcclStart::awaited_ranks() const {
  std::vector<int> ranks;
  for (const Incoming& report : incoming_) {
    if (!report.has_arrived) ranks.push_back(report.source);
  }
  return ranks;
}

bool NcclStart::abandon(Transport& transport) noexcept {
  if (comms_ != nullptr) comms_->abort();
  std::vector<Transfer> transfers = std::exchange(outgoing_, {});
  for (const Incoming& report : incoming_) {
    if (!report.has_arrived) transfers.push_back(report.transfer);
  }
  std::vector<Buffer> buffers;
  buffers.push_back(std::move(reports_));
  transport.abandon(transfers, std::move(buffers));
  return false;
}

}  // namespace lockstep::detail
