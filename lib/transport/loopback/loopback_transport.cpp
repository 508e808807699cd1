// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/loopback/loopback_transport.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "transport/shm/control_queues.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

/// What a rank has sent.
struct Sent {
  int source;
  Bytes bytes;
  Clock::time_point due;  // when it can be received
};
using Queue = std::deque<Sent>;  // by the time at which it was sent

/// The state that all endpoints share. Each inbox has its own lock. A thread holds at most one of these locks.
class Hub {
 public:
  /// If `share_memory` is true, each endpoint gets the node group of its node. `places` is by rank, or empty.
  /// `first_ranks` has, by rank, the ranks for which the hooks are called.
  Hub(std::vector<int> node_leaders, bool share_memory, std::vector<NodePlace> places,
      std::shared_ptr<const LoopbackHooks> hooks, std::vector<int> first_ranks)
      : node_leaders_(std::move(node_leaders)),
        inboxes_(node_leaders_.size()),
        share_memory_(share_memory),
        places_(std::move(places)),
        hooks_(std::move(hooks)),
        first_ranks_(std::move(first_ranks)) {
    for (Inbox& inbox : inboxes_) inbox.has_sent_here.resize(node_leaders_.size());
    if (!share_memory) return;
    std::map<int, std::vector<std::unique_ptr<NodeGroup>>> nodes;
    for (const int leader : node_leaders_) nodes[leader].emplace_back();
    for (auto& [leader, ends] : nodes) {
      std::vector<NodePlace> here;
      for (std::size_t rank = 0; rank < places_.size(); ++rank) {
        if (node_leaders_[rank] == leader) here.push_back(places_[rank]);
      }
      const int size = static_cast<int>(ends.size());
      ends = hooks_->make_groups ? hooks_->make_groups(size, here) : make_thread_groups(size, here);
    }
    for (const int leader : node_leaders_) {
      groups_.push_back(std::move(nodes[leader].front()));
      nodes[leader].erase(nodes[leader].begin());
    }
  }

  struct Inbox {
    Mutex mutex;
    Queue messages LOCKSTEP_GUARDED_BY(mutex);
    std::map<std::pair<int, std::uint64_t>, Queue> data LOCKSTEP_GUARDED_BY(mutex);    // by source and epoch
    std::map<std::pair<int, std::int64_t>, Sent> numbered LOCKSTEP_GUARDED_BY(mutex);  // by source and number
    std::deque<std::atomic<bool>> has_sent_here;                                       // by source
  };
  [[nodiscard]] const LoopbackHooks& hooks() const noexcept { return *hooks_; }
  /// The rank for which hooks are called.
  [[nodiscard]] int first_rank(int rank) const { return first_ranks_[static_cast<std::size_t>(rank)]; }
  /// A copy of `bytes`, with the time at which `target` can receive it.
  [[nodiscard]] Sent send(int source, int target, std::span<const std::byte> bytes) {
    note_connection(source, target);
    Sent sent{source, {bytes.begin(), bytes.end()}, {}};
    if (hooks_->delay) sent.due = Clock::now() + hooks_->delay(first_rank(source), first_rank(target));
    return sent;
  }
  void append(Queue& queue, Sent&& sent) const {
    if (hooks_->delay) {
      for (const Sent& earlier : queue) {
        if (earlier.source == sent.source) sent.due = std::max(sent.due, earlier.due);
      }
    }
    queue.push_back(std::move(sent));
  }
  /// The first entry that can be received.
  [[nodiscard]] Queue::iterator first_due(Queue& queue) const {
    if (!hooks_->delay) return queue.begin();
    return std::find_if(queue.begin(), queue.end(), [now = Clock::now()](const Sent& sent) { return sent.due <= now; });
  }

  void note_connection(int source, int target) { inbox(target).has_sent_here[static_cast<std::size_t>(source)] = true; }
  /// Whether one of both has sent something to the other.
  [[nodiscard]] bool has_connection(int one, int other) {
    return inbox(one).has_sent_here[static_cast<std::size_t>(other)] ||
           inbox(other).has_sent_here[static_cast<std::size_t>(one)];
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(inboxes_.size()); }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const std::vector<int>& node_leaders() const noexcept { return node_leaders_; }
  [[nodiscard]] Inbox& inbox(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  /// The node group of the endpoint of `rank`; null if memory is not shared. Each endpoint takes its group once.
  [[nodiscard]] std::unique_ptr<NodeGroup> take_group(int rank) {
    return share_memory_ ? std::move(groups_[static_cast<std::size_t>(rank)]) : nullptr;
  }

  /// The hub of `members` in the split with this number. The first endpoint that calls this function creates the hub.
  [[nodiscard]] std::shared_ptr<Hub> split(std::uint64_t number, std::span<const int> members) {
    const MutexLock lock(mutex_);
    auto& part = splits_[{number, members.front()}];
    if (!part) {
      std::vector<NodePlace> places;
      std::vector<int> first_ranks;
      for (const int member : members) {
        if (!places_.empty()) places.push_back(places_[static_cast<std::size_t>(member)]);
        first_ranks.push_back(first_rank(member));
      }
      part =
          std::make_shared<Hub>(leaders_of(members), share_memory_, std::move(places), hooks_, std::move(first_ranks));
    }
    return part;
  }

 private:
  /// For each member, the index of the first member of its node among `members`.
  [[nodiscard]] std::vector<int> leaders_of(std::span<const int> members) const {
    const auto node = [this](int rank) { return node_leaders_[static_cast<std::size_t>(rank)]; };
    std::vector<int> leaders;
    for (const int member : members) {
      const auto first =
          std::find_if(members.begin(), members.end(), [&](int other) { return node(other) == node(member); });
      leaders.push_back(static_cast<int>(first - members.begin()));
    }
    return leaders;
  }

  [[nodiscard]] static std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  const std::uint64_t number_ = next_number();
  const std::vector<int> node_leaders_;
  std::deque<Inbox> inboxes_;
  const bool share_memory_;
  const std::vector<NodePlace> places_;  // by rank; may be empty
  const std::shared_ptr<const LoopbackHooks> hooks_;
  const std::vector<int> first_ranks_;              // by rank
  std::vector<std::unique_ptr<NodeGroup>> groups_;  // each element is used only by the endpoint of its rank
  Mutex mutex_;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<Hub>> splits_
      LOCKSTEP_GUARDED_BY(mutex_);  // by split and first member
};

/// The process of a rank, of which a simulation says what another rank knows.
class SimulatedProcess final : public ProcessEnd {
 public:
  SimulatedProcess(std::shared_ptr<const Hub> hub, int observer, int rank)
      : hub_(std::move(hub)), observer_(hub_->first_rank(observer)), rank_(hub_->first_rank(rank)) {}
  bool has_ended() const noexcept override { return hub_->hooks().has_ended(observer_, rank_); }
  std::string end_text() const override { return "has died"; }

 private:
  std::shared_ptr<const Hub> hub_;
  int observer_;
  int rank_;
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), group_(hub_->take_group(rank)) {
    if (!group_ || group_->size() == 1) return;
    std::vector<int> here;
    for (int other = 0; other < size(); ++other) {
      if (leader(other) == leader(rank_)) here.push_back(other);
    }
    queues_ = std::make_unique<ControlQueues>(*group_, std::move(here));
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return hub_->size(); }
  int nodes() const noexcept override {
    int count = 0;
    for (int rank = 0; rank < size(); ++rank) count += leader(rank) == rank ? 1 : 0;
    return count;
  }
  std::span<const int> node_leaders() const noexcept override { return hub_->node_leaders(); }
  NodeGroup* node_group() noexcept override { return nodes() == 1 ? group_.get() : nullptr; }
  NodeGroup* local_group() noexcept override { return nodes() == 1 ? nullptr : group_.get(); }
  std::shared_ptr<const ProcessEnd> process_of(int member) const override {
    if (!hub_->hooks().has_ended) return nullptr;
    int rank = leader(rank_);
    for (int index = 0; index < member; ++index) {
      do {
        ++rank;
      } while (leader(rank) != leader(rank_));
    }
    return std::make_shared<SimulatedProcess>(hub_, rank_, rank);
  }
  std::vector<LostRank> lost_ranks() override {
    std::vector<LostRank> lost;
    if (!hub_->hooks().has_lost) return lost;
    for (int rank = 0; rank < size(); ++rank) {
      if (leader(rank) == leader(rank_) || !hub_->has_connection(rank_, rank)) continue;
      if (!hub_->hooks().has_lost(hub_->first_rank(rank_), hub_->first_rank(rank))) continue;
      if (!has_more_of(rank)) lost.push_back({rank, "the connection has ended: Connection reset by peer", false});
    }
    return lost;
  }
  std::string_view name() const noexcept override { return "threads"; }
  GroupIdentity identity() const override { return {hub_->number(), {}}; }
  bool has_free_threads() const noexcept override { return true; }
  bool this_thread_may_call() const override { return true; }
  bool is_alive() const override { return true; }

  void enter_epoch(std::uint64_t epoch, bool) override {
    epoch_ = epoch;
    receives_.clear();
    under_way_ = 0;
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    std::erase_if(inbox.data, [epoch](const auto& entry) { return entry.first.second < epoch; });
  }

  void post(int target, std::span<const std::byte> message) override {
    LOCKSTEP_CHECK(message.size() <= most_message_bytes);
    if (queues_ && queues_->reach(target)) return queues_->post(target, message);
    Hub::Inbox& inbox = hub_->inbox(target);
    Sent copy = hub_->send(rank_, target, message);
    const MutexLock lock(inbox.mutex);
    hub_->append(inbox.messages, std::move(copy));
  }

  std::optional<ReceivedMessage> poll() override {
    if (queues_) {
      if (const auto message = queues_->poll()) return ReceivedMessage{message->source, message->bytes};
    }
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    const auto next = hub_->first_due(inbox.messages);
    if (next == inbox.messages.end()) return std::nullopt;
    const int source = next->source;
    received_ = std::move(next->bytes);
    inbox.messages.erase(next);
    return ReceivedMessage{source, received_};
  }

  Transfer send(int target, std::span<const std::byte> data) override {
    count_started(data.size());
    count_moved(data.size());
    return put(target, epoch_, data);
  }
  Transfer receive(int source, std::span<std::byte> data) override {
    const Transfer transfer = expect(receives_, source, data);
    count_started(data.size());
    ++under_way_;
    return transfer;
  }
  Transfer send_aside(int target, std::span<const std::byte> data) override { return put(target, aside, data); }
  Transfer receive_aside(int source, std::span<std::byte> data) override {
    return expect(receives_aside_, source, data);
  }

  bool has_transfers_by_number() const noexcept override { return hub_->hooks().numbers_transfers; }
  Transfer send_by_number(int target, std::int64_t number, std::span<const std::byte> data) override {
    Hub::Inbox& inbox = hub_->inbox(target);
    Sent copy = hub_->send(rank_, target, data);
    const MutexLock lock(inbox.mutex);
    inbox.numbered.insert_or_assign({rank_, number}, std::move(copy));
    return sent;
  }
  Transfer receive_by_number(int source, std::int64_t number, std::span<std::byte> data) override {
    const std::size_t index = free_index();
    numbered_.push_back({index, data, source, number});
    return use(index);
  }

  bool test(Transfer transfer) override {
    if (transfer == sent) return true;
    const auto index = static_cast<std::size_t>(transfer);
    if (!complete_[index]) match_all();
    if (!complete_[index]) return false;
    free_.push_back(index);
    return true;
  }
  void test_some(std::span<const Transfer> transfers, std::vector<std::size_t>& complete) override {
    const auto is_open = [this](Transfer each) { return each != sent && !complete_[static_cast<std::size_t>(each)]; };
    if (std::any_of(transfers.begin(), transfers.end(), is_open)) match_all();
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (is_open(transfers[i])) continue;
      if (transfers[i] != sent) free_.push_back(static_cast<std::size_t>(transfers[i]));
      complete.push_back(i);
    }
  }

  TransferCount count() const noexcept override { return count_; }

  bool has_native_all_reduce(DType) const noexcept override { return false; }
  Transfer start_native_all_reduce(void*, std::int64_t, DType, ReduceOp) override {
    LOCKSTEP_CHECK(has_native_all_reduce(DType::f32));
    return sent;
  }

  void abandon(std::span<const Transfer> transfers, std::vector<Buffer>&& memory) noexcept override {
    for (const Transfer transfer : transfers) {
      if (transfer == sent) continue;
      const auto index = static_cast<std::size_t>(transfer);
      std::size_t removed = complete_[index] ? 1 : 0;
      for (auto& [source, waiting] : receives_)
        removed += std::erase_if(waiting, [index](const PendingReceive& receive) { return receive.index == index; });
      removed += std::erase_if(numbered_, [index](const NumberedReceive& receive) { return receive.index == index; });
      if (removed != 0) {
        free_.push_back(index);
      } else {  // an incomplete receive aside (see Transport::receive_aside)
        for (Buffer& buffer : memory) quarantine(std::move(buffer));
      }
    }
    memory.clear();
  }

  void quarantine(Buffer&& memory) noexcept override {
    quarantined_.push_back(std::move(memory));
  }  // an incomplete receive aside still writes to this memory when its message arrives

  std::unique_ptr<NewGroup> begin_group() override;

 private:
  static constexpr Transfer sent{-1};
  static constexpr std::uint64_t aside = std::numeric_limits<std::uint64_t>::max();  // epoch of transfers aside

  [[nodiscard]] int leader(int rank) const { return hub_->node_leaders()[static_cast<std::size_t>(rank)]; }

  /// Whether a message of `source` is left, or anything of it under way.
  [[nodiscard]] bool has_more_of(int source) {
    const Clock::time_point now = Clock::now();
    const auto is_of_source = [source](const Sent& each) { return each.source == source; };
    const auto is_under_way = [&](const Sent& each) { return is_of_source(each) && each.due > now; };
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    return std::any_of(inbox.messages.begin(), inbox.messages.end(), is_of_source) ||
           std::any_of(
               inbox.data.begin(), inbox.data.end(),
               [&](const auto& each) { return std::any_of(each.second.begin(), each.second.end(), is_under_way); }) ||
           std::any_of(inbox.numbered.begin(), inbox.numbered.end(),
                       [&](const auto& each) { return is_under_way(each.second); });
  }

  struct PendingReceive {
    std::size_t index;
    std::span<std::byte> data;
  };

  struct NumberedReceive {
    std::size_t index;
    std::span<std::byte> data;
    int source;
    std::int64_t number;
  };

  using PendingReceives = std::map<int, std::deque<PendingReceive>>;  // by source, and in the order of their start

  void count_started(std::size_t bytes) {
    if (under_way_ == 0 && count_.moved_bytes == count_.started_bytes) count_ = {count_.completed, 0, 0};
    count_.started_bytes += bytes;
  }
  void count_moved(std::size_t bytes) {
    count_.moved_bytes += bytes;
    ++count_.completed;
  }

  Transfer put(int target, std::uint64_t epoch, std::span<const std::byte> data) {
    Hub::Inbox& inbox = hub_->inbox(target);
    Sent copy = hub_->send(rank_, target, data);
    const MutexLock lock(inbox.mutex);
    hub_->append(inbox.data[{rank_, epoch}], std::move(copy));
    return sent;  // complete at once, because the data is copied
  }

  Transfer expect(PendingReceives& receives, int source, std::span<std::byte> data) {
    const std::size_t index = free_index();
    receives[source].push_back({index, data});  // throws before anything is changed
    return use(index);
  }

  [[nodiscard]] std::size_t free_index() {
    if (free_.empty()) {
      free_.reserve(complete_.size() + 1);  // so that the test of a complete transfer never allocates
      complete_.push_back(false);
      free_.push_back(complete_.size() - 1);
    }
    return free_.back();
  }

  [[nodiscard]] Transfer use(std::size_t index) noexcept {
    free_.pop_back();
    complete_[index] = false;
    return static_cast<Transfer>(index);
  }

  void match_all() {
    match(receives_, epoch_);
    match(receives_aside_, aside);
    if (!numbered_.empty()) match_numbered();
  }

  void match_numbered() {
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    std::erase_if(numbered_, [&](const NumberedReceive& receive) LOCKSTEP_REQUIRES(inbox.mutex) {
      const auto found = inbox.numbered.find({receive.source, receive.number});
      if (found == inbox.numbered.end() || (hub_->hooks().delay && found->second.due > Clock::now())) return false;
      const Bytes& bytes = found->second.bytes;
      LOCKSTEP_CHECK(receive.data.size() == bytes.size());
      if (!bytes.empty()) std::memcpy(receive.data.data(), bytes.data(), bytes.size());
      complete_[receive.index] = true;
      inbox.numbered.erase(found);
      return true;
    });
  }

  /// Matches messages that have arrived with receives, in the order in which the receives were started.
  void match(PendingReceives& receives, std::uint64_t epoch) {
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    for (auto& [source, waiting] : receives) {
      auto& arrived = inbox.data[{source, epoch}];
      while (!waiting.empty() && hub_->first_due(arrived) != arrived.end()) {
        const PendingReceive receive = waiting.front();
        const Bytes& bytes = arrived.front().bytes;
        LOCKSTEP_CHECK(receive.data.size() == bytes.size());
        if (!receive.data.empty()) std::memcpy(receive.data.data(), bytes.data(), receive.data.size());
        complete_[receive.index] = true;
        if (epoch != aside) {
          count_moved(receive.data.size());
          --under_way_;
        }
        waiting.pop_front();
        arrived.pop_front();
      }
    }
    std::erase_if(receives, [](const auto& each) { return each.second.empty(); });
  }

  std::shared_ptr<Hub> hub_;
  Bytes received_;  // the message that `poll` returned last
  int rank_;
  std::unique_ptr<NodeGroup> group_;
  std::unique_ptr<ControlQueues> queues_;  // to the other ranks of the node; null if there are none, or no group
  std::uint64_t epoch_ = 0;
  std::uint64_t last_split_ = 0;
  PendingReceives receives_;
  PendingReceives receives_aside_;
  std::vector<NumberedReceive> numbered_;
  std::vector<Buffer> quarantined_;
  TransferCount count_;
  std::size_t under_way_ = 0;  // number of incomplete receives, without receives aside
  std::vector<bool> complete_;
  std::vector<std::size_t> free_;
};

class LoopbackGroup final : public NewGroup {
 public:
  /// `last_split` is the number of the last split in which the endpoint has taken part.
  LoopbackGroup(std::shared_ptr<Hub> parent, int rank, std::uint64_t& last_split)
      : parent_(std::move(parent)), rank_(rank), last_split_(last_split) {}

  Introduction introduction() const override {
    Introduction own;
    own.number = last_split_ + 1;
    return own;
  }
  void join(std::span<const Introduction> introductions, std::span<const int> members) override {
    // after a split that has failed, the ranks may know of different numbers
    for (const Introduction& each : introductions) last_split_ = std::max(last_split_, each.number);
    if (members.empty()) return;
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
    made_ = std::make_unique<LoopbackTransport>(parent_->split(last_split_, members), static_cast<int>(place));
  }
  bool needs_context() const noexcept override { return false; }
  void start_context() override {}
  bool test_context() override { return true; }
  void abandon_context() noexcept override {}
  Vote vote() override { return {}; }
  bool accept(std::span<const Vote>) override { return true; }
  std::unique_ptr<Transport> take() override { return std::move(made_); }

 private:
  std::shared_ptr<Hub> parent_;
  int rank_;
  std::uint64_t& last_split_;
  std::unique_ptr<Transport> made_;
};

std::unique_ptr<NewGroup> LoopbackTransport::begin_group() {
  return std::make_unique<LoopbackGroup>(hub_, rank_, last_split_);
}

std::vector<std::unique_ptr<Transport>> make_ends(std::vector<int> node_leaders, bool share_memory,
                                                  std::vector<NodePlace> places, LoopbackHooks hooks) {
  std::vector<int> ranks(node_leaders.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto hub = std::make_shared<Hub>(std::move(node_leaders), share_memory, std::move(places),
                                         std::make_shared<const LoopbackHooks>(std::move(hooks)), std::move(ranks));
  std::vector<std::unique_ptr<Transport>> ends;
  for (int rank = 0; rank < hub->size(); ++rank) ends.push_back(std::make_unique<LoopbackTransport>(hub, rank));
  return ends;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_loopback_transports(int size, bool share_memory,
                                                                 std::vector<NodePlace> places) {
  return make_ends(std::vector<int>(static_cast<std::size_t>(size), 0), share_memory, std::move(places), {});
}

std::vector<std::unique_ptr<Transport>> make_loopback_transports(const std::vector<int>& node_leaders,
                                                                 bool share_memory, LoopbackHooks hooks,
                                                                 std::vector<NodePlace> places) {
  return make_ends(node_leaders, share_memory, std::move(places), std::move(hooks));
}

}  // namespace lockstep::detail
