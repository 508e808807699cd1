// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/mpi_group.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "base/processor.hpp"
#include "cluster/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::detail {
namespace {

std::atomic<std::uint64_t> last_number{0};

void note_number(std::uint64_t number) {
  for (std::uint64_t known = last_number.load(); known < number && !last_number.compare_exchange_weak(known, number);) {
  }
}

/// For each member, the first member of its node. `nodes` has, for each rank of the parent, the first rank of its node.
std::vector<int> leaders_of(std::span<const int> members, std::span<const int> nodes) {
  std::vector<int> first_of_node(nodes.size(), -1);
  std::vector<int> leaders;
  for (std::size_t i = 0; i < members.size(); ++i) {
    int& first = first_of_node[static_cast<std::size_t>(nodes[static_cast<std::size_t>(members[i])])];
    if (first < 0) first = static_cast<int>(i);
    leaders.push_back(first);
  }
  return leaders;
}

void report_no_group(const std::string& why) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  log_warning("ranks of this node communicate by messages, because they cannot share memory: {}", why);
}

/// What the last communicator that has measured has chosen between nodes.
class ChoiceOfProcess {
 public:
  struct Choice {
    TransportChoice transport = TransportChoice::none;
    std::uint64_t group = 0;  // of the communicator
    std::shared_ptr<const std::string> why = {};
  };
  static ChoiceOfProcess& get() {
    static NeverDestroyed<ChoiceOfProcess> choice;
    return *choice;
  }
  [[nodiscard]] Choice choice() {
    const MutexLock lock(mutex_);
    return choice_;
  }
  void keep(Choice choice) {
    const MutexLock lock(mutex_);
    choice_ = std::move(choice);
  }

 private:
  Mutex mutex_;
  Choice choice_ LOCKSTEP_GUARDED_BY(mutex_);
};

std::string_view name_of(TransportSetting setting) {
  return setting == TransportSetting::mpi ? "mpi" : setting == TransportSetting::tcp ? "tcp" : "auto";
}

/// A node of few ranks has one level, so its places do not matter.
NodePlace place_in(const MpiRanks& ranks) {
  return ranks.size() <= Levels::most_neighbours ? NodePlace() : place_of_this_process();
}

}  // namespace

int MpiRanks::nodes() const noexcept {
  int count = 0;
  for (int r = 0; r < size(); ++r) count += leaders[static_cast<std::size_t>(r)] == r ? 1 : 0;
  return count;
}

std::vector<int> MpiRanks::ranks_here() const {
  std::vector<int> here;
  for (int r = 0; r < size(); ++r) {
    if (leaders[static_cast<std::size_t>(r)] == leaders[static_cast<std::size_t>(rank)]) here.push_back(r);
  }
  return here;
}

std::uint64_t next_transport_number() { return last_number.load() + 1; }

MpiGroup::MpiGroup(MpiRanks parent) : parent_(std::move(parent)), offer_(parent_.share_memory, place_in(parent_)) {}

std::unique_ptr<MpiGroup> MpiGroup::first_of(MpiRanks ranks, int leader) {
  auto group = std::make_unique<MpiGroup>(std::move(ranks));
  group->is_first_ = true;
  group->leader_ = leader;
  return group;
}

Introduction MpiGroup::introduction() const {
  const ChoiceOfProcess::Choice choice = ChoiceOfProcess::get().choice();
  return {next_transport_number(),
          parent_.context->duplicates(),
          leader_,
          parent_.transport,
          choice.transport,
          choice.group,
          id_of_this_process(),
          allowed_cpus(),
          offer_.introduction(),
          parent_.share_memory ? 1U : 0U,
          parent_.transport != TransportSetting::mpi ? TcpNetwork::new_token() : 0};
}

void MpiGroup::join(std::span<const Introduction> all, std::span<const int> members) {
  members_.assign(members.begin(), members.end());
  for (const Introduction& other : all) {
    number_ = std::max(number_, other.number);
    duplicates_ = std::max(duplicates_, other.duplicates);
  }
  if (members.empty()) return;
  choose_context(members);
  const AllowedCpus own = all[static_cast<std::size_t>(parent_.rank)].processors;
  for (const int rank : ranks_.ranks_here()) {
    const Introduction& other = all[static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)])];
    ranks_.processes.push_back(other.process);
    if (other.processors == own) ranks_.on_same_processors.push_back(rank);
  }
  agree_on_transport(all);
  open_memory(all);
}

/// All ranks of the group see the same, so that they agree on an error.
void MpiGroup::agree_on_transport(std::span<const Introduction> all) {
  const auto introduction_of = [&](int rank) -> const Introduction& {
    return all[static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)])];
  };
  for (int rank = 1; rank < ranks_.size() && !tcp_error_; ++rank) {
    const TransportSetting setting = introduction_of(rank).transport;
    if (setting == introduction_of(0).transport) continue;
    tcp_error_.emplace(Code::mismatch,
                       fmt::format("LOCKSTEP_TRANSPORT is {} on rank {}, but {} on rank 0; set it alike on all ranks",
                                   name_of(setting), rank, name_of(introduction_of(0).transport)));
  }
  if (ranks_.transport == TransportSetting::mpi || tcp_error_) return;
  ranks_.network = parent_.network;
  ranks_.group_id = introduction_of(0).token;
  is_automatic_ = ranks_.transport == TransportSetting::automatic;
  if (is_automatic_) {
    bool all_offer_memory = true;
    bool have_chosen = introduction_of(0).chosen != TransportChoice::none;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      all_offer_memory = all_offer_memory && introduction_of(rank).offers_memory != 0;
      have_chosen = have_chosen && introduction_of(rank).choice == introduction_of(0).choice;
    }
    const bool needs_none = ranks_.nodes() == 1 && (all_offer_memory || ranks_.size() == 1);
    if (needs_none) {
      ranks_.transport = TransportSetting::mpi;
    } else if (have_chosen) {  // in one communicator with all ranks of this one
      const ChoiceOfProcess::Choice own = ChoiceOfProcess::get().choice();  // another thread may have chosen again
      use(introduction_of(0).chosen, own.group == introduction_of(0).choice ? own.why : nullptr);
    }
  }
  if (parent_.peers.empty()) return;  // `learn_peers` will be called
  for (const int member : members_) ranks_.peers.push_back(parent_.peers[static_cast<std::size_t>(member)]);
}

void MpiGroup::use(TransportChoice choice, std::shared_ptr<const std::string> why) {
  ranks_.transport = choice == TransportChoice::tcp ? TransportSetting::tcp : TransportSetting::mpi;
  ranks_.why_chosen = std::move(why);
  if (choice == TransportChoice::tcp) return;
  ranks_.network.reset();
  ranks_.peers.clear();
}

void MpiGroup::choose(TransportChoice choice, std::string why) {
  auto text = std::make_shared<const std::string>(std::move(why));
  ChoiceOfProcess::get().keep({choice, ranks_.group_id, text});
  use(choice, std::move(text));
}

TcpIdentity MpiGroup::identity() const { return parent_.network ? parent_.network->identity() : TcpIdentity(); }

void MpiGroup::learn_peers(std::span<const TcpIdentity> all) {
  const auto without = std::find_if(all.begin(), all.end(), [](const TcpIdentity& each) { return each.id == 0; });
  if (without != all.end()) {
    const std::string text = fmt::format("rank {} cannot use TCP between nodes", without - all.begin());
    if (is_automatic_) return choose(TransportChoice::mpi, text);
    tcp_error_.emplace(Code::unavailable, text + "; its log has the reason");
    return;
  }
  const auto other =
      std::find_if(all.begin(), all.end(), [&](const TcpIdentity& each) { return each.encrypts != all[0].encrypts; });
  if (other != all.end()) {
    tcp_error_.emplace(Code::mismatch,
                       fmt::format("LOCKSTEP_ENCRYPTION is {} on rank {}, but not on rank 0; set it alike on all ranks",
                                   other->encrypts ? 1 : 0, other - all.begin()));
    return;
  }
  for (int rank = 0; rank < ranks_.size(); ++rank)
    ranks_.peers.push_back(rank == ranks_.rank ? -1 : ranks_.network->learn(all[static_cast<std::size_t>(rank)]));
}

/// The first ranks of two nodes, the next two, and so on. If all ranks are on one node, which shares no memory, each
/// rank counts as a node.
TransportTrial::Pair MpiGroup::pair() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_.nodes() == 1 || ranks_.leaders[static_cast<std::size_t>(rank)] == rank) ranks.push_back(rank);
  }
  const auto own = std::find(ranks.begin(), ranks.end(), ranks_.rank);
  const auto at = static_cast<std::size_t>(own - ranks.begin());
  const std::size_t other = at ^ 1U;
  if (own == ranks.end() || other >= ranks.size()) return {};
  return {ranks[other], at < other, ranks_.peers[static_cast<std::size_t>(ranks[other])]};
}

bool MpiGroup::test_trial() {
  if (ranks_.transport != TransportSetting::automatic || tcp_error_) return true;
  if (!trial_) {
    trial_ = std::make_unique<TransportTrial>(ranks_.context->comm(), ranks_.size(), pair(), ranks_.network,
                                              ranks_.group_id + 1, ranks_.time_to_connect);
  }
  if (!trial_->test()) return false;
  TrialVerdict verdict = verdict_on(trial_->results());
  trial_.reset();
  choose(verdict.is_tcp ? TransportChoice::tcp : TransportChoice::mpi, std::move(verdict.text));
  return true;
}

void MpiGroup::choose_context(std::span<const int> members) {
  ranks_.context = parent_.context;
  for (const int member : members) {
    ranks_.context_ranks.push_back(parent_.context_ranks[static_cast<std::size_t>(member)]);
  }
  ranks_.leaders = leaders_of(members, parent_.leaders);
  ranks_.rank = static_cast<int>(std::find(members.begin(), members.end(), parent_.rank) - members.begin());
  ranks_.share_memory = parent_.share_memory;
  ranks_.segment_bytes = parent_.segment_bytes;
  ranks_.transport = parent_.transport;
  ranks_.why_chosen = parent_.why_chosen;
  ranks_.time_to_connect = parent_.time_to_connect;
  ranks_.job_ranks = parent_.job_ranks;
  needs_context_ = parent_.is_job;
  ranks_.slot = needs_context_ || is_first_ ? 0 : 1;  // 1 stands for a slot that `vote` chooses
}

void MpiGroup::open_memory(std::span<const Introduction> all) {
  if (ranks_.size() == 1) return;
  const std::vector<int> here = ranks_.ranks_here();
  std::vector<NodeIntroduction> introductions;
  for (const int rank : here) {
    const int member = members_[static_cast<std::size_t>(rank)];
    introductions.push_back(all[static_cast<std::size_t>(member)].node);
  }
  if (here.size() == 1) {
    has_opened_ = ranks_.share_memory;
    return;
  }
  const auto place = std::find(here.begin(), here.end(), ranks_.rank) - here.begin();
  has_opened_ = offer_.open(static_cast<int>(place), introductions);
}

bool MpiGroup::test_context() {
  if (!has_context_) {
    if (!duplicate_) {
      if (!parent_.context->drop_duplicates(duplicates_)) return false;
      duplicate_ = parent_.context->start_duplicate();
    }
    if (!duplicate_->test()) return false;
    ranks_.context = std::make_shared<Context>(duplicate_->take());
    duplicate_.reset();
    has_context_ = true;
    if (needs_identities()) {
      const TcpIdentity own = identity();
      identities_ = std::make_unique<mpi::PendingAllGather>(ranks_.context->comm(), ranks_.size(), &own, sizeof(own));
    }
  }
  if (identities_) {
    if (!identities_->test()) return false;
    const auto all = identities_->all_as<TcpIdentity>();
    identities_.reset();
    learn_peers(all);
  }
  return test_trial();
}

void MpiGroup::abandon_context() noexcept {
  if (duplicate_) parent_.context->abandon_duplicate(std::move(duplicate_));
}

Vote MpiGroup::vote() {
  Vote vote;
  if (members_.empty()) return vote;
  if (ranks_.size() > 1) vote.shares_memory = has_opened_ ? 1 : 0;
  if (ranks_.slot != 0) {
    ranks_.slot = 1 + static_cast<int>(number_ % static_cast<std::uint64_t>(Tags::slots()));
    has_slot_ = ranks_.context->take_slot(ranks_.slot);
    vote.has_tags = has_slot_ ? 1 : 0;
  }
  return vote;
}

bool MpiGroup::accept(std::span<const Vote> votes) {
  const bool has_tags = std::all_of(votes.begin(), votes.end(), [](const Vote& vote) { return vote.has_tags != 0; });
  note_number(number_);
  if (!has_tags) {
    if (has_slot_) ranks_.context->free_slot(ranks_.slot);
    has_slot_ = false;
    ++number_;
    if (++attempts_ < Tags::slots()) return false;
    throw_error(
        Code::unavailable,
        "too many communicators: the tags of MPI (MPI_TAG_UB) are enough for {} communicators made by split and "
        "duplicate, and all are in use; destroy some of these communicators",
        Tags::slots());
  }
  if (tcp_error_) throw Error(*tcp_error_);
  if (!members_.empty()) decide_memory(votes);
  return true;
}

/// If a rank cannot share memory with its node, no node of the group shares memory.
void MpiGroup::decide_memory(std::span<const Vote> votes) {
  if (ranks_.size() == 1) {
    group_ = std::move(make_thread_groups(1).front());
    offer_.withdraw();
    return;
  }
  const auto shares = [&](int rank) {
    return votes[static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)])].shares_memory != 0;
  };
  const std::vector<int> here = ranks_.ranks_here();
  bool all_share = true;
  for (int rank = 0; rank < ranks_.size(); ++rank) all_share = all_share && shares(rank);
  if (all_share) {
    if (here.size() > 1) {
      group_ = offer_.take();
    } else {
      group_ = std::move(make_thread_groups(1).front());
      offer_.withdraw();
    }
    return;
  }
  std::string why = offer_.why_not();
  offer_.withdraw();
  if (!ranks_.share_memory || here.size() == 1 || here.front() != ranks_.rank) return;
  const auto refusing = std::find_if_not(here.begin(), here.end(), shares);
  if (refusing == here.end()) return;
  if (why.empty()) why = "rank " + std::to_string(refusing - here.begin()) + " of the node cannot share memory";
  report_no_group(why);
}

std::unique_ptr<Transport> MpiGroup::take() {
  if (members_.empty()) {
    offer_.withdraw();
    return nullptr;
  }
  const bool shares_all = group_ != nullptr && ranks_.nodes() == 1;
  if (ranks_.transport == TransportSetting::tcp && !shares_all)
    return make_tcp_transport(std::move(ranks_), number_, std::move(group_));
  return make_transport(std::move(ranks_), number_, std::move(group_));
}

}  // namespace lockstep::detail
