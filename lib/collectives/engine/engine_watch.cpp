// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine's patience: who is missing, who is told, and when it ends.

#include "collectives/engine/engine.hpp"

#include "base/log.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::detail {

std::vector<int> Engine::missing_ranks() const {
  const auto is_missing = [this](int rank) {
    return !control_.has_shown_itself(rank, epoch_, sequence_) && !agreement_->has_come(rank, epoch_, sequence_);
  };
  std::vector<int> missing;
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (rank != transport_->rank() && is_missing(rank)) missing.push_back(rank);
  }
  const Operation& head = *queue_.front();
  // everybody is there, but data does not come
  if (missing.empty() && head.agreed) missing = head.awaited_ranks();
  return missing;
}

/// One that has done its part may be elsewhere, so this is no proof that it is gone.
std::vector<int> Engine::silent_ranks() const {
  std::vector<int> silent;
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (rank != transport_->rank() && !control_.has_shown_itself(rank, epoch_, sequence_)) silent.push_back(rank);
  }
  return silent;
}

Failure Engine::late(const std::vector<int>& missing) const {
  const auto named = [](const std::vector<int>& ranks) {
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  };
  const std::string who = missing.empty() ? std::string(queue_.front()->awaited()) : named(missing) + " did not come";
  std::string where;
  if (const auto silent = silent_ranks(); missing.empty() && !silent.empty())
    where = fmt::format("; {} did not answer the roll call", named(silent));
  for (const int rank : missing) {
    const std::string_view said = control_.whereabouts(rank, epoch_, sequence_);
    if (!said.empty()) where += fmt::format("; rank {} has said that it waits in {}", rank, said);
  }
  return {Code::deadline_exceeded,
          fmt::format("{}: {} within {} s{}", text_of(*queue_.front()), who,
                      std::chrono::duration<double>(fail_after()).count(), where),
          context_of(missing.empty() ? -1 : missing.front())};
}

std::chrono::milliseconds Engine::fail_after() const noexcept {
  const std::chrono::milliseconds own = queue_.front()->fail_after;
  return own.count() > 0 ? own : options_.fail_after;
}

/// Which operation `head` is.
std::string Engine::text_of(const Operation& head) const {
  return fmt::format("operation #{} of {}, {}", sequence_, options_.name, describe(head.descriptor()));
}

void Engine::watch() {
  const auto waited = Clock::now() - *head_since_;
  const auto call_after = std::min<Clock::duration>(options_.warn_after, fail_after() / 2);
  // who is here says so when it takes long, or when somebody asks
  if (!roll_called_ && (waited > call_after || control_.roll_was_called(epoch_, sequence_))) {
    roll_called_ = true;
    control_.send_roll_call(epoch_, sequence_);
    options_.family->tell_peers(*this, text_of(*queue_.front()));
  }
  if (waited > fail_after()) {
    declare(late(missing_ranks()));
    return;
  }
  // a moment after the call, when the others have answered; the lowest rank that is here speaks for all
  const auto answer_time = std::min<Clock::duration>(std::chrono::milliseconds(200), fail_after() / 10);
  if (warned_ || waited <= options_.warn_after + answer_time) return;
  warned_ = true;
  const auto missing = missing_ranks();
  int speaker = 0;
  while (speaker < transport_->rank() && std::find(missing.begin(), missing.end(), speaker) != missing.end()) ++speaker;
  if (speaker != transport_->rank()) return;
  for (const int rank : missing) {
    log_warning("{} has waited {:.1f} s in operation #{} ({}) for rank {}, last heard of in operation #{}",
                options_.name, std::chrono::duration<double>(waited).count(), sequence_,
                describe(queue_.front()->descriptor()), rank,
                std::max(control_.last_sequence(rank), agreement_->last_sequence(rank, epoch_)));
  }
}

}  // namespace lockstep::detail
