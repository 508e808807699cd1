// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/network.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using namespace std::chrono_literals;
using State = TcpTransfer::State;

constexpr std::uint64_t group = 7;

bool encrypts = false;

TcpOptions on_loopback() { return {.interface = "127.0.0.0/8", .encrypts = encrypts}; }

/// Each case, with connections in clear and encrypted.
class TcpNetworkTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { encrypts = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Connections, TcpNetworkTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "encrypted" : "in_clear"; });

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  std::minstd_rand random(seed + 1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Networks of this process that know each other.
class Networks {
 public:
  explicit Networks(int count) {
    for (int i = 0; i < count; ++i) all_.push_back(std::make_unique<TcpNetwork>(on_loopback()));
    for (const auto& one : all_) {
      for (const auto& other : all_) peers_.push_back(one == other ? -1 : one->learn(other->identity()));
    }
  }
  [[nodiscard]] TcpNetwork& operator[](int i) { return *all_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int peer(int of, int other) const {
    return peers_[static_cast<std::size_t>(of) * all_.size() + static_cast<std::size_t>(other)];
  }
  /// Waits until it has ended.
  void end(int i) { all_[static_cast<std::size_t>(i)].reset(); }
  /// Lets all networks work until `is_done`; false if that takes a minute.
  template <class Condition>
  [[nodiscard]] bool until(const Condition& is_done) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!is_done()) {
      for (const auto& each : all_) {
        if (each) each->progress();
      }
      if (std::chrono::steady_clock::now() > end) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<TcpNetwork>> all_;
  std::vector<int> peers_;
};

TEST_P(TcpNetworkTest, brings_messages_in_order) {
  Networks networks(3);
  for (unsigned k = 0; k < 50; ++k) {
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        if (from != to) networks[from].post(networks.peer(from, to), group, bytes_of(k * 97, k));
      }
    }
  }
  for (int to = 0; to < 3; ++to) {
    std::array<unsigned, 3> received{};
    ASSERT_TRUE(networks.until([&] {
      while (const auto message = networks[to].poll(group)) {
        const int from = networks.peer(to, (to + 1) % 3) == message->peer ? (to + 1) % 3 : (to + 2) % 3;
        unsigned& k = received[static_cast<std::size_t>(from)];
        EXPECT_EQ(message->bytes, bytes_of(k * 97, k));
        ++k;
      }
      return std::count(received.begin(), received.end(), 50U) == 2;
    }));
  }
}

/// One transfer from network 0 to network 1.
struct Pair {
  Pair(std::size_t bytes, unsigned seed) : sent(bytes_of(bytes, seed)), received(bytes) {}
  std::vector<std::byte> sent;
  std::vector<std::byte> received;
  TcpTransfer send;
  TcpTransfer receive;
};

void start_send(Networks& networks, Pair& pair, std::uint64_t tag = 1) {
  networks[0].send(pair.send, networks.peer(0, 1), group, tag, pair.sent);
}
void start_receive(Networks& networks, Pair& pair, std::uint64_t tag = 1) {
  networks[1].receive(pair.receive, networks.peer(1, 0), group, tag, pair.received);
}
bool is_over(Networks& networks, const Pair& pair) {
  return networks[0].state(pair.send) != State::pending && networks[1].state(pair.receive) != State::pending;
}

void expect_all_arrive(Networks& networks, const std::deque<Pair>& pairs) {
  for (const Pair& pair : pairs) {
    ASSERT_TRUE(networks.until([&] { return is_over(networks, pair); })) << pair.sent.size();
    EXPECT_EQ(networks[0].state(pair.send), State::done);
    EXPECT_EQ(networks[1].state(pair.receive), State::done);
    EXPECT_EQ(pair.sent, pair.received) << pair.sent.size();
  }
}

constexpr std::array<std::size_t, 8> sizes{0, 1, 39, 4096, 131'072, 131'073, 1 << 20, (5 << 20) + 3};

TEST_P(TcpNetworkTest, brings_transfers_of_all_sizes) {
  Networks networks(2);
  for (const bool is_early : {true, false}) {
    std::deque<Pair> pairs;
    for (std::size_t i = 0; i < sizes.size(); ++i) pairs.emplace_back(sizes[i], static_cast<unsigned>(i));
    if (!is_early) {
      for (Pair& pair : pairs) start_receive(networks, pair);
    }
    for (Pair& pair : pairs) start_send(networks, pair);
    if (is_early) {
      for (int i = 0; i < 100; ++i) {
        networks[0].progress();
        networks[1].progress();
      }
      for (Pair& pair : pairs) start_receive(networks, pair);
    }
    expect_all_arrive(networks, pairs);
  }
}

TEST_P(TcpNetworkTest, brings_transfers_by_number_in_any_order) {
  Networks networks(2);
  std::deque<Pair> pairs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    pairs.emplace_back(sizes[i], static_cast<unsigned>(i));
    networks[1].receive_by_number(pairs[i].receive, networks.peer(1, 0), group, i, pairs[i].received);
  }
  for (std::size_t i = sizes.size(); i-- > 0;)
    networks[0].send_by_number(pairs[i].send, networks.peer(0, 1), group, i, pairs[i].sent);
  expect_all_arrive(networks, pairs);
}

TEST_P(TcpNetworkTest, drops_the_data_of_a_transfer_by_number_that_was_cancelled) {
  for (const bool is_send_cancelled : {false, true}) {
    Networks networks(2);
    std::deque<Pair> pairs;
    for (std::uint64_t k = 0; k < 3; ++k) {
      Pair& pair = pairs.emplace_back(k == 0 ? 16 << 20 : 3 << 20, static_cast<unsigned>(k));
      networks[1].receive_by_number(pair.receive, networks.peer(1, 0), group, k, pair.received);
      networks[0].send_by_number(pair.send, networks.peer(0, 1), group, k, pair.sent);
    }
    // in the middle of the data
    ASSERT_TRUE(networks.until([&] { return networks[1].moved_bytes(pairs[0].receive) > 0; }));
    TcpTransfer& cancelled = is_send_cancelled ? pairs[0].send : pairs[0].receive;
    is_send_cancelled ? networks[0].cancel(cancelled) : networks[1].cancel(cancelled);
    // else the threads of the networks have been faster
    const bool is_cancelled = networks[is_send_cancelled ? 0 : 1].state(cancelled) == State::idle;
    const auto received = pairs[0].received;
    std::fill(pairs[0].sent.begin(), pairs[0].sent.end(), std::byte{0});
    for (std::size_t k = 1; k < 3; ++k) {
      ASSERT_TRUE(networks.until([&] { return is_over(networks, pairs[k]); }));
      EXPECT_EQ(pairs[k].sent, pairs[k].received);
    }
    if (is_cancelled && is_send_cancelled) {
      EXPECT_EQ(networks[1].state(pairs[0].receive), State::pending);
    } else if (is_cancelled) {
      EXPECT_EQ(pairs[0].received, received);
    }
    networks[0].cancel(pairs[0].send);
    networks[1].cancel(pairs[0].receive);
  }
}

TEST_P(TcpNetworkTest, brings_more_eager_transfers_than_have_room) {
  Networks networks(2);
  std::deque<Pair> pairs;
  for (unsigned i = 0; i < 200; ++i) pairs.emplace_back(60'000, i);
  for (Pair& pair : pairs) start_send(networks, pair);
  for (int i = 0; i < 1000; ++i) {
    networks[0].progress();
    networks[1].progress();
  }
  for (Pair& pair : pairs) start_receive(networks, pair);
  for (const Pair& pair : pairs) {
    ASSERT_TRUE(networks.until([&] { return is_over(networks, pair); }));
    EXPECT_EQ(pair.sent, pair.received);
  }
}

TEST_P(TcpNetworkTest, matches_by_group_and_tag) {
  Networks networks(2);
  Pair one(1000, 1);
  Pair other(2000, 2);
  start_send(networks, one, 1);
  start_send(networks, other, 2);
  start_receive(networks, other, 2);
  ASSERT_TRUE(networks.until([&] { return is_over(networks, other); }));
  EXPECT_EQ(other.sent, other.received);
  start_receive(networks, one, 1);
  ASSERT_TRUE(networks.until([&] { return is_over(networks, one); }));
  EXPECT_EQ(one.sent, one.received);
}

TEST_P(TcpNetworkTest, frees_the_memory_of_a_cancelled_transfer_at_once) {
  Networks networks(2);
  std::minstd_rand random(3);
  for (int round = 0; round < 60; ++round) {
    const std::size_t bytes = sizes[random() % sizes.size()];
    auto cancelled = std::make_unique<Pair>(bytes, 1);
    const bool sends = random() % 4 != 0;
    const bool receives = random() % 4 != 0;
    if (sends) start_send(networks, *cancelled, 1);
    if (receives) start_receive(networks, *cancelled, 1);
    for (auto i = random() % 30; i > 0; --i) {
      networks[0].progress();
      networks[1].progress();
    }
    networks[0].cancel(cancelled->send);
    networks[1].cancel(cancelled->receive);
    cancelled.reset();
    // what follows on another tag is right, and what is left of the cancelled one is dropped
    networks[1].drop_before(group, 2);
    Pair next(bytes, 2);
    start_send(networks, next, 2);
    start_receive(networks, next, 2);
    ASSERT_TRUE(networks.until([&] { return is_over(networks, next); })) << round << " " << bytes;
    ASSERT_EQ(next.sent, next.received) << round << " " << bytes;
    networks[1].drop_before(group, 0);
  }
}

TEST_P(TcpNetworkTest, fails_what_waits_for_a_process_that_ends) {
  Networks networks(3);
  Pair first(100, 1);
  start_send(networks, first);
  start_receive(networks, first);
  ASSERT_TRUE(networks.until([&] { return is_over(networks, first); }));
  Pair last(300'000, 2);
  start_send(networks, last);
  start_receive(networks, last);
  Pair never(100, 3);
  start_receive(networks, never);
  networks[0].post(networks.peer(0, 1), group, bytes_of(500, 9));
  ASSERT_TRUE(networks.until([&] { return networks[0].state(last.send) == State::done; }));
  networks.end(0);
  ASSERT_TRUE(networks.until([&] { return networks[1].state(never.receive) != State::pending; }));
  EXPECT_EQ(networks[1].state(never.receive), State::failed);
  EXPECT_EQ(networks[1].state(last.receive), State::done);
  EXPECT_EQ(last.sent, last.received);
  EXPECT_EQ(networks[1].lost_peers(), 1U);
  EXPECT_FALSE(networks[1].loss_of(networks.peer(1, 0), group)) << "a message is left";
  const auto message = networks[1].poll(group);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, bytes_of(500, 9));
  const auto loss = networks[1].loss_of(networks.peer(1, 0), group);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->why, "it has ended its connections");
  EXPECT_TRUE(loss->has_left);
  // a transfer to it fails at once, and the others go on
  TcpTransfer after;
  networks[1].send(after, networks.peer(1, 0), group, 1, last.sent);
  EXPECT_EQ(networks[1].state(after), State::failed);
  std::vector<std::byte> received(last.sent.size());
  TcpTransfer receive;
  networks[2].receive(receive, networks.peer(2, 1), group, 1, received);
  TcpTransfer send;
  networks[1].send(send, networks.peer(1, 2), group, 1, last.sent);
  ASSERT_TRUE(networks.until([&] { return networks[2].state(receive) != State::pending; }));
  EXPECT_EQ(received, last.sent);
}

TEST_P(TcpNetworkTest, makes_one_connection_if_both_sides_begin) {
  for (unsigned round = 0; round < 100; ++round) {
    Networks networks(2);
    std::minstd_rand random(round + 1);
    std::array<bool, 2> has_posted{};
    std::array<bool, 2> has_come{};
    ASSERT_TRUE(networks.until([&] {
      for (int i = 0; i < 2; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (!has_posted[at] && random() % 3 == 0) {
          networks[i].post(networks.peer(i, 1 - i), group, bytes_of(10, 1));
          has_posted[at] = true;
        }
        has_come[at] = has_come[at] || networks[i].poll(group);
      }
      return has_come[0] && has_come[1];
    })) << round;
    EXPECT_EQ(networks[0].lost_peers() + networks[1].lost_peers(), 0U) << round;
  }
}

TEST_P(TcpNetworkTest, sends_what_was_posted_though_its_process_makes_no_call) {
  Networks networks(2);
  networks[0].post(networks.peer(0, 1), group, bytes_of(1000, 1));
  const auto end = std::chrono::steady_clock::now() + 60s;
  std::optional<TcpNetwork::Message> message;
  while (!message && std::chrono::steady_clock::now() < end) {
    networks[1].sleep(10ms);
    networks[1].progress();
    message = networks[1].poll(group);
  }
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, bytes_of(1000, 1));
}

TEST_P(TcpNetworkTest, brings_all_that_a_process_has_sent_before_its_end) {
  for (unsigned round = 0; round < 10; ++round) {
    Networks networks(2);
    Pair large(3 << 20, round);
    start_send(networks, large);
    start_receive(networks, large);
    ASSERT_TRUE(networks.until([&] { return networks[0].state(large.send) == State::done; }));
    std::deque<Pair> small;
    for (unsigned i = 0; i < 7; ++i) small.emplace_back(100'000, i);
    for (Pair& pair : small) start_send(networks, pair, 2);
    ASSERT_TRUE(networks.until([&] {
      return std::all_of(small.begin(), small.end(),
                         [&](const Pair& pair) { return networks[0].state(pair.send) == State::done; });
    }));
    std::thread ending([&] { networks.end(0); });
    for (Pair& pair : small) start_receive(networks, pair, 2);
    const auto end = std::chrono::steady_clock::now() + 60s;
    const auto is_pending = [&](const Pair& pair) {
      networks[1].progress();
      return networks[1].state(pair.receive) == State::pending && std::chrono::steady_clock::now() < end;
    };
    for (const Pair& pair : small) {
      while (is_pending(pair)) std::this_thread::yield();
      EXPECT_EQ(pair.sent, pair.received);
    }
    while (is_pending(large)) std::this_thread::yield();
    ending.join();
    EXPECT_EQ(networks[1].state(large.receive), State::done);
    EXPECT_EQ(large.sent, large.received);
  }
}

/// A connection to `network` from outside of the job.
class Foreigner {
 public:
  explicit Foreigner(const TcpNetwork& network) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(network.identity().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  Foreigner(const Foreigner&) = delete;
  Foreigner& operator=(const Foreigner&) = delete;
  ~Foreigner() { close(socket_); }
  [[nodiscard]] bool is_connected() const { return is_connected_; }
  void say(const std::vector<std::byte>& bytes) const {
    static_cast<void>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  /// Whether the other side has closed the connection.
  [[nodiscard]] bool is_refused() const {
    std::byte byte{};
    const ssize_t count = recv(socket_, &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }

 private:
  int socket_;
  bool is_connected_;
};

TEST_P(TcpNetworkTest, wakes_a_thread_that_sleeps_when_something_comes) {
  Networks networks(2);
  bool has_come = false;
  networks[0].post(networks.peer(0, 1), group, bytes_of(1, 1));
  ASSERT_TRUE(networks.until([&] { return networks[1].poll(group).has_value(); }));
  const auto begin = std::chrono::steady_clock::now();
  std::thread sleeper([&] {
    while (!has_come) {
      networks[1].sleep(60s);
      networks[1].progress();
      has_come = networks[1].poll(group).has_value();
    }
  });
  std::this_thread::sleep_for(20ms);
  networks[0].post(networks.peer(0, 1), group, bytes_of(1, 2));
  sleeper.join();
  EXPECT_TRUE(has_come);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 50s);
}

/// A child that has exchanged identities with this process, has sent it a message, and has made a child of its own,
/// which executes no other program.
class ProcessWithChild {
 public:
  explicit ProcessWithChild(TcpNetwork& network) : network_(network) {
    if (pipe(to_child_.data()) != 0 || pipe(to_parent_.data()) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) be_child();
    TcpIdentity identity;
    receive(&identity, sizeof(identity));
    peer_ = network_.learn(identity);
    send(&network_.identity(), sizeof(TcpIdentity));
    while (!network_.poll(group)) network_.progress();
    char has_child = 0;
    receive(&has_child, 1);
  }
  ProcessWithChild(const ProcessWithChild&) = delete;
  ProcessWithChild& operator=(const ProcessWithChild&) = delete;
  ~ProcessWithChild() {
    for (const int end : {to_child_[0], to_child_[1], to_parent_[0], to_parent_[1]}) close(end);
  }

  [[nodiscard]] int peer() const { return peer_; }
  void kill_it() const {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  /// Ends its child. Returns whether that was still alive.
  [[nodiscard]] bool end_child() {
    char byte = 1;
    send(&byte, 1);
    close(to_parent_[1]);
    to_parent_[1] = -1;
    return read(to_parent_[0], &byte, 1) == 1;
  }

 private:
  [[noreturn]] void be_child() {
    const auto own = TcpNetwork::of_this_process(on_loopback());
    write_to_parent(&own->identity(), sizeof(TcpIdentity));
    TcpIdentity parent;
    if (read(to_child_[0], &parent, sizeof(parent)) != sizeof(parent)) _exit(1);
    const int there = own->learn(parent);
    own->post(there, group, bytes_of(10, 1));
    while (!own->has_left(there)) own->progress();
    const bool is_child = fork() == 0;
    char byte = 1;
    if (!is_child) {
      write_to_parent(&byte, 1);
      close(to_child_[0]);
      close(to_child_[1]);
      for (;;) own->progress();  // until it is killed
    }
    close(to_child_[1]);
    if (read(to_child_[0], &byte, 1) == 1) write_to_parent(&byte, 1);
    _exit(0);
  }
  void write_to_parent(const void* data, std::size_t bytes) const {
    if (write(to_parent_[1], data, bytes) != static_cast<ssize_t>(bytes)) _exit(1);
  }
  void send(const void* data, std::size_t bytes) const {
    if (write(to_child_[1], data, bytes) != static_cast<ssize_t>(bytes)) throw std::runtime_error("write");
  }
  void receive(void* data, std::size_t bytes) const {
    if (read(to_parent_[0], data, bytes) != static_cast<ssize_t>(bytes)) throw std::runtime_error("read");
  }

  TcpNetwork& network_;
  std::array<int, 2> to_child_{};
  std::array<int, 2> to_parent_{};
  pid_t pid_ = -1;
  int peer_ = -1;
};

TEST_P(TcpNetworkTest, learns_of_the_end_of_a_process_whose_child_lives_on) {
  TcpNetwork network(on_loopback());
  ProcessWithChild process(network);
  process.kill_it();
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!network.loss_of(process.peer(), group) && std::chrono::steady_clock::now() < end) {
    network.sleep(10ms);
    network.progress();
  }
  EXPECT_TRUE(network.loss_of(process.peer(), group));
  EXPECT_TRUE(process.end_child()) << "the case shows nothing";
}

TEST_P(TcpNetworkTest, is_not_disturbed_by_strangers) {
  Networks networks(2);
  std::deque<Foreigner> idle;
  for (unsigned i = 0; i < 10'000; ++i) {
    Foreigner stranger(networks[i % 2]);
    ASSERT_TRUE(stranger.is_connected());
    stranger.say(bytes_of(i % 200, i));
    if (i % 100 == 0) idle.emplace_back(networks[i % 2]);
    networks[i % 2].progress();
    if (i % 500 != 0) continue;
    Pair pair(200'000, i);
    start_send(networks, pair);
    start_receive(networks, pair);
    ASSERT_TRUE(networks.until([&] { return is_over(networks, pair); })) << i;
    EXPECT_EQ(pair.sent, pair.received);
  }
}

TEST_P(TcpNetworkTest, refuses_a_process_without_the_secret) {
  Networks networks(1);
  TcpNetwork liar(on_loopback());
  // knows whom to greet, and nothing else
  TcpIdentity identity = networks[0].identity();
  identity.secret = {1, 2};
  static_cast<void>(networks[0].learn(liar.identity()));
  const int peer = liar.learn(identity);
  liar.post(peer, group, bytes_of(100, 1));
  const auto end = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < end) {
    liar.progress();
    networks[0].progress();
  }
  EXPECT_FALSE(networks[0].poll(group));
  EXPECT_FALSE(liar.has_left(peer));
}

}  // namespace
}  // namespace lockstep::test
