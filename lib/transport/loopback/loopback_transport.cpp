// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/loopback/loopback_transport.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Bytes = std::vector<std::byte>;

/// The state that all endpoints share. Each inbox has its own lock. A thread holds at most one of these locks.
class Hub {
 public:
  /// If `share_memory` is true, each endpoint gets the node group of its node. `places` is by rank, or empty.
  Hub(std::vector<int> node_leaders, bool share_memory, std::vector<NodePlace> places = {})
      : node_leaders_(std::move(node_leaders)),
        inboxes_(node_leaders_.size()),
        share_memory_(share_memory),
        places_(std::move(places)) {
    if (!share_memory) return;
    std::map<int, std::vector<std::unique_ptr<NodeGroup>>> nodes;
    for (const int leader : node_leaders_) nodes[leader].emplace_back();
    for (auto& [leader, ends] : nodes) {
      std::vector<NodePlace> here;
      for (std::size_t rank = 0; rank < places_.size(); ++rank) {
        if (node_leaders_[rank] == leader) here.push_back(places_[rank]);
      }
      ends = make_thread_groups(static_cast<int>(ends.size()), here);
    }
    for (const int leader : node_leaders_) {
      groups_.push_back(std::move(nodes[leader].front()));
      nodes[leader].erase(nodes[leader].begin());
    }
  }

  struct Inbox {
    Mutex mutex;
    std::deque<std::pair<int, Bytes>> messages LOCKSTEP_GUARDED_BY(mutex);  // with the source of each message
    std::map<std::pair<int, std::uint64_t>, std::deque<Bytes>> data LOCKSTEP_GUARDED_BY(mutex);  // by source and epoch
  };

  [[nodiscard]] int size() const noexcept { return static_cast<int>(inboxes_.size()); }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const std::vector<int>& node_leaders() const noexcept { return node_leaders_; }
  [[nodiscard]] Inbox& inbox(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  /// The node group of the endpoint of `rank`; null if memory is not shared. Each endpoint takes its group once.
  [[nodiscard]] std::unique_ptr<NodeGroup> take_group(int rank) {
    return share_memory_ ? std::move(groups_[static_cast<std::size_t>(rank)]) : nullptr;
  }

  /// The hub of `members` in the k-th split of every endpoint. The first endpoint that calls this function creates the
  /// hub.
  [[nodiscard]] std::shared_ptr<Hub> split(std::size_t k, std::span<const int> members) {
    const MutexLock lock(mutex_);
    auto& part = splits_[{k, members.front()}];
    if (!part) {
      std::vector<NodePlace> places;
      for (std::size_t i = 0; i < members.size() && !places_.empty(); ++i)
        places.push_back(places_[static_cast<std::size_t>(members[i])]);
      part = std::make_shared<Hub>(leaders_of(members), share_memory_, std::move(places));
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
  const std::vector<NodePlace> places_;             // by rank; may be empty
  std::vector<std::unique_ptr<NodeGroup>> groups_;  // each element is used only by the endpoint of its rank
  Mutex mutex_;
  std::map<std::pair<std::size_t, int>, std::shared_ptr<Hub>> splits_
      LOCKSTEP_GUARDED_BY(mutex_);  // by split and first member
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), group_(hub_->take_group(rank)) {}

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
    Hub::Inbox& inbox = hub_->inbox(target);
    Bytes copy(message.begin(), message.end());
    const MutexLock lock(inbox.mutex);
    inbox.messages.emplace_back(rank_, std::move(copy));
  }

  std::optional<ReceivedMessage> poll() override {
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    if (inbox.messages.empty()) return std::nullopt;
    const int source = inbox.messages.front().first;
    received_ = std::move(inbox.messages.front().second);
    inbox.messages.pop_front();
    return ReceivedMessage{source, received_};
  }

  Transfer send(int target, std::span<const std::byte> data) override {
    count_started(data.size());
    count_moved(data.size());
    return put(target, epoch_, data);
  }
  Transfer receive(int source, std::span<std::byte> data) override {
    count_started(data.size());
    ++under_way_;
    return expect(receives_, source, data);
  }
  Transfer send_aside(int target, std::span<const std::byte> data) override { return put(target, aside, data); }
  Transfer receive_aside(int source, std::span<std::byte> data) override {
    return expect(receives_aside_, source, data);
  }

  bool test(Transfer transfer) override {
    if (transfer == sent) return true;
    const auto index = static_cast<std::size_t>(transfer);
    if (!complete_[index]) {
      match(receives_, epoch_);
      match(receives_aside_, aside);
    }
    if (!complete_[index]) return false;
    free_.push_back(index);
    return true;
  }
  void test_some(std::span<const Transfer> transfers, std::vector<std::size_t>& complete) override {
    const auto is_open = [this](Transfer each) { return each != sent && !complete_[static_cast<std::size_t>(each)]; };
    if (std::any_of(transfers.begin(), transfers.end(), is_open)) {
      match(receives_, epoch_);
      match(receives_aside_, aside);
    }
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

  struct PendingReceive {
    std::size_t index;
    std::span<std::byte> data;
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
    Bytes copy(data.begin(), data.end());
    const MutexLock lock(inbox.mutex);
    inbox.data[{rank_, epoch}].push_back(std::move(copy));
    return sent;  // complete at once, because the data is copied
  }

  Transfer expect(PendingReceives& receives, int source, std::span<std::byte> data) {
    if (free_.empty()) {
      free_.push_back(complete_.size());
      complete_.push_back(false);
    }
    const std::size_t index = free_.back();
    free_.pop_back();
    complete_[index] = false;
    receives[source].push_back({index, data});
    return static_cast<Transfer>(index);
  }

  /// Matches messages that have arrived with receives, in the order in which the receives were started.
  void match(PendingReceives& receives, std::uint64_t epoch) {
    Hub::Inbox& inbox = hub_->inbox(rank_);
    const MutexLock lock(inbox.mutex);
    for (auto& [source, waiting] : receives) {
      auto& arrived = inbox.data[{source, epoch}];
      while (!waiting.empty() && !arrived.empty()) {
        const PendingReceive receive = waiting.front();
        LOCKSTEP_CHECK(receive.data.size() == arrived.front().size());
        if (!receive.data.empty()) std::memcpy(receive.data.data(), arrived.front().data(), receive.data.size());
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
  std::uint64_t epoch_ = 0;
  std::size_t splits_ = 0;
  PendingReceives receives_;
  PendingReceives receives_aside_;
  std::vector<Buffer> quarantined_;
  TransferCount count_;
  std::size_t under_way_ = 0;  // number of incomplete receives, without receives aside
  std::vector<bool> complete_;
  std::vector<std::size_t> free_;
};

class LoopbackGroup final : public NewGroup {
 public:
  LoopbackGroup(std::shared_ptr<Hub> parent, int rank, std::size_t k)
      : parent_(std::move(parent)), rank_(rank), k_(k) {}

  Introduction introduction() const override { return {}; }
  void join(std::span<const Introduction>, std::span<const int> members) override {
    if (members.empty()) return;
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
    made_ = std::make_unique<LoopbackTransport>(parent_->split(k_, members), static_cast<int>(place));
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
  std::size_t k_;
  std::unique_ptr<Transport> made_;
};

std::unique_ptr<NewGroup> LoopbackTransport::begin_group() {
  return std::make_unique<LoopbackGroup>(hub_, rank_, splits_++);
}

std::vector<std::unique_ptr<Transport>> ends_of(const std::shared_ptr<Hub>& hub) {
  std::vector<std::unique_ptr<Transport>> ends;
  for (int rank = 0; rank < hub->size(); ++rank) ends.push_back(std::make_unique<LoopbackTransport>(hub, rank));
  return ends;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_loopback_transports(int size, bool share_memory,
                                                                 std::vector<NodePlace> places) {
  return ends_of(
      std::make_shared<Hub>(std::vector<int>(static_cast<std::size_t>(size), 0), share_memory, std::move(places)));
}

std::vector<std::unique_ptr<Transport>> make_loopback_transports(const std::vector<int>& node_leaders,
                                                                 bool share_memory) {
  return ends_of(std::make_shared<Hub>(node_leaders, share_memory));
}

}  // namespace lockstep::detail
