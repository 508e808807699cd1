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
                     int first, int all, std::chrono::milliseconds patience)
    : Operation(descriptor), comms_(std::move(comms)), id_(id), first_(first), all_(all), patience_(patience) {
  static_assert(std::is_trivially_copyable_v<Letter>, "it travels as bytes");
}

std::span<std::byte> NcclStart::letter_of(int rank) const {
  return letters_.first(letters_.size()).subspan(static_cast<std::size_t>(rank) * sizeof(Letter), sizeof(Letter));
}

void NcclStart::start(Transport& transport, Workspace& workspace) {
  rank_ = transport.rank();
  letters_ = workspace.take(static_cast<std::size_t>(transport.size()) * sizeof(Letter));
  for (int source = 0; source < transport.size(); ++source) {
    if (source != rank_) incoming_.push_back({source, transport.receive(source, letter_of(source))});
  }
  until_ = std::chrono::steady_clock::now() + patience_;
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
  read_mail(transport);
  if (own_.outcome == Outcome::open) look_at_own();
  if (own_.outcome == Outcome::open) return false;
  if (!is_sent_) send(transport);
  std::erase_if(outgoing_, [&](Transfer transfer) { return transport.test(transfer); });
  const bool all_here =
      std::all_of(incoming_.begin(), incoming_.end(), [](const Incoming& letter) { return letter.is_here; });
  if (!all_here || !outgoing_.empty()) return false;
  conclude(transport.size());
  workspace.give_back(std::move(letters_));
  return true;
}

void NcclStart::look_at_own() noexcept {
  try {
    if (comms_->are_ready()) {
      conclude_own(Outcome::started, {});
    } else if (std::chrono::steady_clock::now() > until_) {
      conclude_own(Outcome::failed,
                   fmt::format("it has not come up within {} s", std::chrono::duration<double>(patience_).count()));
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

void NcclStart::read_mail(Transport& transport) {
  for (Incoming& letter : incoming_) {
    if (letter.is_here || !transport.test(letter.transfer)) continue;
    letter.is_here = true;
    Outcome outcome{};
    std::memcpy(&outcome, letter_of(letter.source).data(), sizeof(outcome));
    if (outcome != Outcome::started && own_.outcome == Outcome::open) conclude_own(Outcome::given_up, {});
  }
}

void NcclStart::send(Transport& transport) {
  is_sent_ = true;
  std::memcpy(letter_of(rank_).data(), &own_, sizeof(own_));
  for (const Incoming& peer : incoming_) outgoing_.push_back(transport.send(peer.source, letter_of(rank_)));
}

void NcclStart::conclude(int ranks) {
  for (int rank = ranks - 1; rank >= 0; --rank) {  // the lowest one that has failed is named
    Letter letter;
    std::memcpy(&letter, letter_of(rank).data(), sizeof(letter));
    if (letter.outcome == Outcome::failed)
      why_not_ = fmt::format("NCCL does not start on rank {}: {}", rank, letter.text.data());
  }
  if (!why_not_.empty() && comms_ != nullptr) comms_->abort();
}

std::vector<int> NcclStart::awaited_ranks() const {
  std::vector<int> ranks;
  for (const Incoming& letter : incoming_) {
    if (!letter.is_here) ranks.push_back(letter.source);
  }
  return ranks;
}

bool NcclStart::abandon(Transport& transport) noexcept {
  if (comms_ != nullptr) comms_->abort();
  const bool is_complete = awaited_ranks().empty() && outgoing_.empty();
  transport.quarantine(std::move(letters_));
  return !is_complete;
}

}  // namespace lockstep::detail
