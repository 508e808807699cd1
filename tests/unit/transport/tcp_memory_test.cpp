// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a process keeps for its connections to many others.

#include "transport/tcp/network.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t others = 127;
constexpr std::uint64_t group = 7;
constexpr std::array<std::byte, 64> message{};

/// A process with many networks, each of which answers every message.
class Others {
 public:
  Others() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw std::runtime_error("socketpair");
    pid_ = ::fork();
    if (pid_ == 0) answer(ends[1]);
    ::close(ends[1]);
    socket_ = ends[0];
  }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;
  ~Others() {
    ::close(socket_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// They and the process `own` learn of each other.
  [[nodiscard]] std::vector<TcpIdentity> meet(const TcpIdentity& own) const {
    std::vector<TcpIdentity> all(others);
    const auto bytes = static_cast<ssize_t>(others * sizeof(TcpIdentity));
    if (::send(socket_, &own, sizeof(own), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(own)) ||
        ::recv(socket_, all.data(), static_cast<std::size_t>(bytes), MSG_WAITALL) != bytes)
      throw std::runtime_error("the other process has ended");
    return all;
  }

 private:
  [[noreturn]] static void answer(int socket) {
    TcpIdentity caller;
    if (::recv(socket, &caller, sizeof(caller), MSG_WAITALL) != static_cast<ssize_t>(sizeof(caller))) ::_exit(1);
    std::vector<std::unique_ptr<TcpNetwork>> all;
    std::vector<int> peers;
    for (std::size_t i = 0; i < others; ++i) {
      all.push_back(std::make_unique<TcpNetwork>(TcpOptions{.interface = "127.0.0.0/8"}));
      peers.push_back(all.back()->learn(caller));
      const TcpIdentity& own = all.back()->identity();
      if (::send(socket, &own, sizeof(own), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(own))) ::_exit(1);
    }
    for (;;) {  // until it is killed
      for (std::size_t i = 0; i < others; ++i) {
        all[i]->progress();
        while (all[i]->poll(group)) all[i]->post(peers[i], group, message);
      }
    }
  }

  pid_t pid_ = -1;
  int socket_ = -1;
};

std::size_t allocated_bytes() { return mallinfo2().uordblks; }

TEST(TcpMemory, is_small_for_each_peer) {
  if (allocated_bytes() == 0) GTEST_SKIP() << "with this allocator, the bytes in use are unknown";
  TcpNetwork network({.interface = "127.0.0.0/8"});
  const Others all;
  const auto identities = all.meet(network.identity());
  const std::size_t before = allocated_bytes();
  std::vector<int> peers;
  for (const TcpIdentity& each : identities) peers.push_back(network.learn(each));
  const std::size_t known = allocated_bytes();
  for (const int peer : peers) network.post(peer, group, message);
  const auto end = Clock::now() + 60s;
  for (std::size_t answers = 0; answers < others && Clock::now() < end;) {
    network.progress();
    while (network.poll(group)) ++answers;
  }
  const std::size_t connected = allocated_bytes();
  EXPECT_EQ(network.lost_peers(), 0U);
  EXPECT_LT((known - before) / others, std::size_t{4} << 10) << "of a peer without a connection";
  EXPECT_LT((connected - before) / others, std::size_t{16} << 10) << "of a peer with one";
  RecordProperty("bytes_of_a_known_peer", std::to_string((known - before) / others));
  RecordProperty("bytes_of_a_connected_peer", std::to_string((connected - before) / others));
}

}  // namespace
}  // namespace lockstep::test
