// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Processes that exchange messages and transfers over TCP while one of them is killed: the others lose nothing between
// them, and see its end. LOCKSTEP_TEST_KILLS says how many are killed, one after the other; LOCKSTEP_TEST_SEED what
// happens; LOCKSTEP_TEST_NETWORKS the files of the network namespaces that the processes enter, separated by commas. In
// every second round, all that they send is encrypted.

#include "base/mutex.hpp"
#include "transport/tcp/network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using State = TcpTransfer::State;

constexpr std::size_t processes = 4;
constexpr unsigned steps = 40;
constexpr std::uint64_t common_group = 7;
constexpr auto time_to_hang = 60s;

std::size_t bytes_of_step(unsigned step, std::size_t from, std::size_t to) {
  constexpr std::array<std::size_t, 6> sizes{0, 100, 20'000, 131'072, 300'000, 1'500'000};
  return sizes[(step + from * 3 + to) % sizes.size()];
}

std::byte value_of_step(unsigned step, std::size_t from, std::size_t to) {
  return static_cast<std::byte>(1 + step * 31 + from * 7 + to);
}

/// What one process and one of the others have for each other.
struct Link {
  int peer = -1;
  bool is_lost = false;
  unsigned messages = 0;  // that have come
  struct Step {
    std::vector<std::byte> sent;
    std::vector<std::byte> received;
    TcpTransfer send;
    TcpTransfer receive;
  };
  std::vector<std::unique_ptr<Step>> steps;
};

/// How the process `rank` reaches the others.
TcpOptions options_of(std::size_t rank, bool encrypts) {
  const char* const networks = std::getenv("LOCKSTEP_TEST_NETWORKS");
  if (networks == nullptr) return {.interface = "127.0.0.0/8", .encrypts = encrypts};
  std::vector<std::string> files;
  for (std::stringstream list{std::string(networks)}; std::getline(list, files.emplace_back(), ',');) {}
  files.pop_back();
  const int network = ::open(files[rank % files.size()].c_str(), O_RDONLY | O_CLOEXEC);
  if (network < 0 || ::setns(network, CLONE_NEWNET) != 0) throw std::runtime_error("cannot enter a network namespace");
  ::close(network);
  return {.encrypts = encrypts};
}

/// One process of a round.
class Process {
 public:
  Process(std::size_t rank, int to_parent, bool encrypts) : rank_(rank), encrypts_(encrypts), to_parent_(to_parent) {}

  /// Returns what is wrong; empty if nothing is.
  std::string run(std::size_t victim) {
    victim_ = victim;
    network_ = std::make_unique<TcpNetwork>(options_of(rank_, encrypts_));
    std::array<TcpIdentity, processes> all;
    const TcpIdentity& own = network_->identity();
    if (::write(to_parent_, &own, sizeof(own)) != static_cast<ssize_t>(sizeof(own))) return "the test has ended";
    if (::recv(to_parent_, all.data(), sizeof(all), MSG_WAITALL) != static_cast<ssize_t>(sizeof(all)))
      return "the test has ended";
    for (std::size_t other = 0; other < processes; ++other)
      links_[other].peer = other == rank_ ? -1 : network_->learn(all[other]);
    for (unsigned step = 0; step < steps; ++step) {
      if (std::string wrong = exchange(step); !wrong.empty()) return wrong;
    }
    // the victim is killed at some time: all see its end, and only its end
    const auto end = Clock::now() + time_to_hang;
    while (!links_[victim].is_lost) {
      network_->sleep(5ms);
      network_->progress();
      look_for_losses();
      if (Clock::now() > end) return fmt::format("rank {} does not see the end of rank {}", rank_, victim);
    }
    for (std::size_t other = 0; other < processes; ++other) {
      if (other != rank_ && other != victim && links_[other].is_lost && !has_left_[other])
        return fmt::format("rank {} has lost rank {}, which lives: {}", rank_, other, why_[other]);
    }
    return {};
  }

 private:
  std::string exchange(unsigned step) {
    for (std::size_t other = 0; other < processes; ++other) {
      Link& link = links_[other];
      if (other == rank_) continue;
      auto& own = *link.steps.emplace_back(std::make_unique<Link::Step>());
      own.sent.assign(bytes_of_step(step, rank_, other), value_of_step(step, rank_, other));
      own.received.assign(bytes_of_step(step, other, rank_), std::byte{0});
      const std::array<std::byte, 4> message{value_of_step(step, rank_, other), std::byte{1}, std::byte{2},
                                             std::byte{3}};
      if (step % 2 == 0) {
        network_->receive(own.receive, link.peer, common_group, step, own.received);
        network_->send(own.send, link.peer, common_group, step, own.sent);
      } else {  // the other process has started its receive before it has sent this message
        network_->receive_by_number(own.receive, link.peer, common_group, step, own.received);
      }
      network_->post(link.peer, common_group, message);
    }
    const auto end = Clock::now() + time_to_hang;
    std::array<bool, processes> has_sent{};
    for (;;) {
      network_->progress();
      if (std::string wrong = take_messages(); !wrong.empty()) return wrong;
      look_for_losses();
      bool is_over = true;
      for (std::size_t other = 0; other < processes; ++other) {
        Link& link = links_[other];
        if (other == rank_) continue;
        Link::Step& own = *link.steps.back();
        if (step % 2 != 0 && !has_sent[other] && link.messages > step) {
          network_->send_by_number(own.send, link.peer, common_group, step, own.sent);
          has_sent[other] = true;
        }
        const bool has_moved = is_done(own.receive) && (is_done(own.send) || (link.is_lost && is_failed(own.send)));
        const bool is_killed = other == victim_ && link.is_lost;
        if (!is_killed && !(has_moved && link.messages > step)) is_over = false;
      }
      if (is_over) return wrong_data(step);
      if (Clock::now() > end) return fmt::format("rank {} hangs in step {}", rank_, step);
      network_->sleep(1ms);
    }
  }

  std::string take_messages() {
    while (const auto message = network_->poll(common_group)) {
      for (std::size_t other = 0; other < processes; ++other) {
        Link& link = links_[other];
        if (other == rank_ || link.peer != message->peer) continue;
        if (message->bytes.size() != 4 || message->bytes[0] != value_of_step(link.messages, other, rank_))
          return fmt::format("rank {} gets another message than number {} of rank {}", rank_, link.messages, other);
        ++link.messages;
      }
    }
    return {};
  }

  void look_for_losses() {
    for (std::size_t other = 0; other < processes; ++other) {
      Link& link = links_[other];
      if (other == rank_ || link.is_lost) continue;
      const auto loss = network_->loss_of(link.peer, common_group);
      if (!loss) continue;
      link.is_lost = true;
      has_left_[other] = loss->has_left;
      why_[other] = loss->why;
      // what it has sent before its orderly end has come
      if (loss->has_left && link.messages < steps) why_[other] = "it had not sent everything", has_left_[other] = false;
    }
  }

  [[nodiscard]] bool is_done(const TcpTransfer& transfer) { return network_->state(transfer) == State::done; }
  [[nodiscard]] bool is_failed(const TcpTransfer& transfer) { return network_->state(transfer) == State::failed; }
  std::string wrong_data(unsigned step) {
    for (std::size_t other = 0; other < processes; ++other) {
      if (other == rank_ || (other == victim_ && !is_done(links_[other].steps.back()->receive))) continue;
      const auto& received = links_[other].steps.back()->received;
      const std::vector<std::byte> right(received.size(), value_of_step(step, other, rank_));
      if (received != right) return fmt::format("rank {} has wrong data of rank {} in step {}", rank_, other, step);
    }
    return {};
  }

  const std::size_t rank_;
  const bool encrypts_;
  const int to_parent_;
  std::size_t victim_ = 0;
  std::array<Link, processes> links_;
  std::array<bool, processes> has_left_{};
  std::array<std::string, processes> why_;
  std::unique_ptr<TcpNetwork> network_;  // ends first
};

/// What a process of a round does; it does not return.
[[noreturn]] void be_process(std::size_t rank, std::size_t victim, int to_parent, unsigned seed) {
  std::string wrong;
  try {
    Process process(rank, to_parent, seed % 2 == 1);
    wrong = process.run(victim);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (!wrong.empty()) std::fprintf(stderr, "seed %u: %s\n", seed, wrong.c_str());
  ::_exit(wrong.empty() ? 0 : 1);
}

/// The processes of a round; those that have not ended are killed.
class Processes {
 public:
  Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      ::close(sockets_[rank]);
      kill(rank);
      if (pids_[rank] > 0) static_cast<void>(::waitpid(pids_[rank], nullptr, 0));
    }
  }

  [[nodiscard]] bool start(std::size_t victim, unsigned seed) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
    std::fflush(nullptr);
    const std::size_t rank = pids_.size();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int socket : sockets_) ::close(socket);
      be_process(rank, victim, ends[1], seed);
    }
    ::close(ends[1]);
    sockets_.push_back(ends[0]);
    pids_.push_back(pid);
    return pid > 0;
  }
  /// They tell each other who they are.
  void introduce() {
    std::array<TcpIdentity, processes> all;
    for (std::size_t rank = 0; rank < processes; ++rank)
      static_cast<void>(::recv(sockets_[rank], &all[rank], sizeof(TcpIdentity), MSG_WAITALL));
    for (const int socket : sockets_) static_cast<void>(::send(socket, all.data(), sizeof(all), MSG_NOSIGNAL));
  }
  void kill(std::size_t rank) {
    if (pids_[rank] > 0) ::kill(pids_[rank], SIGKILL);
  }
  /// Its status, once it has ended; none if it has not by `end`.
  [[nodiscard]] std::optional<int> end_of(std::size_t rank, Clock::time_point end) {
    int status = 0;
    while (::waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (Clock::now() > end) return std::nullopt;
      std::this_thread::sleep_for(1ms);
    }
    pids_[rank] = 0;
    return status;
  }

 private:
  std::vector<int> sockets_;
  std::vector<pid_t> pids_;  // 0: it has ended
};

/// Returns what is wrong.
std::string kill_one(unsigned seed) {
  std::minstd_rand random(seed + 1);
  random.discard(3);
  const std::size_t victim = random() % processes;
  const unsigned longest = random() % 4 == 0 ? 20'000 : 400'000;
  const auto moment = std::chrono::microseconds(random() % longest);
  Processes all;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    if (!all.start(victim, seed)) return fmt::format("process {} cannot be started", rank);
  }
  all.introduce();
  std::this_thread::sleep_for(moment);
  all.kill(victim);
  const auto end = Clock::now() + 2 * time_to_hang;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    const auto status = all.end_of(rank, end);
    if (!status) return fmt::format("rank {} hangs", rank);
    const bool is_right = rank == victim ? WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL
                                         : WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
    if (!is_right) return fmt::format("rank {} has ended with {}", rank, *status);
  }
  return {};
}

unsigned number_in(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : otherwise;
}

TEST(TcpKills, lose_nothing_between_the_others) {
  const unsigned kills = number_in("LOCKSTEP_TEST_KILLS", 8);
  const unsigned seed = number_in("LOCKSTEP_TEST_SEED", 1);
  for (unsigned k = 0; k < kills; ++k) {
    const std::string wrong = kill_one(seed + k);
    EXPECT_EQ(wrong, "") << "seed " << seed + k;
  }
}

}  // namespace
}  // namespace lockstep::test
