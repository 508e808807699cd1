// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/network.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"
#include "base/never_destroyed.hpp"
#include "base/random_word.hpp"
#include "base/start_thread.hpp"
#include "transport/tcp/handshake.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <new>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using State = TcpTransfer::State;

constexpr std::chrono::seconds time_of_identity{10};  // for which a stranger may know a process that this one does not
/// For which one connection of a peer is read after the end of the other one, from the last data on.
constexpr std::chrono::seconds time_of_rest{1};
/// After which a host that refuses connections has no such process any more.
constexpr std::chrono::seconds time_of_refusals{5};
constexpr std::chrono::milliseconds time_of_connect{3000};
constexpr std::chrono::milliseconds time_of_first_connect{700};  // while not all addresses have been tried
constexpr std::chrono::milliseconds first_pause{20};
constexpr std::chrono::milliseconds time_of_help{2};
constexpr int most_turns_of_help = 8;  // each sends one or two MiB of a stream
/// For which a connection that is being accepted keeps this process from making one.
constexpr std::chrono::milliseconds time_of_acceptance{500};
constexpr std::chrono::seconds time_of_youth{1};  // in which a stranger is not closed to make room for others
constexpr int most_accepted = 16;                 // at a time
constexpr std::size_t most_text = 128;            // of a reason for the end of a connection, in most cases

}  // namespace

class TcpNetwork::Implementation {
 public:
  explicit Implementation(TcpOptions options) : options_(std::move(options)) {
    if (options_.encrypts) AesGcm::require();
    identity_.encrypts = options_.encrypts;
    own_ = own_addresses(options_.interface, "LOCKSTEP_INTERFACE");
    identity_.id = random_word();
    identity_.secret = {random_word(), random_word()};
    if (!options_.announced_address.empty()) {
      identity_.addresses[0] = address_from(options_.announced_address, "LOCKSTEP_ADDRESS");
    } else {
      for (std::size_t i = 0; i < std::min(own_.size(), TcpIdentity::most_addresses); ++i)
        identity_.addresses[i] = own_[i];
    }
    listen_on_port();
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) {
      const int error = errno;
      ::close(listener_);
      throw_error(Code::unavailable, "epoll_create1: {}", std::strerror(error));
    }
    if (watch(listener_, EPOLLIN, listener_key)) return;
    ::close(listener_);
    ::close(epoll_);
    throw_error(Code::unavailable, "no connections of other ranks can be awaited");
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation() {
    stop_helper();
    say_farewell();
    strangers_.clear();
    peers_.clear();
    if (listener_ >= 0) ::close(listener_);
    if (epoll_ >= 0) ::close(epoll_);
  }

  /// In a child of `fork`: it has no part in the connections, which the parent alone ends.
  void leave_to_parent() noexcept {
    for (const auto& peer : peers_) {
      peer->is_ending = true;
      for (Line* const line : {&peer->small, &peer->bulk}) {
        line->channel.close();
        line->end_dial();
      }
    }
    strangers_.clear();
    for (int* const socket : {&listener_, &epoll_}) {
      if (*socket >= 0) ::close(std::exchange(*socket, -1));
    }
  }

  [[nodiscard]] const TcpIdentity& identity() const noexcept { return identity_; }
  [[nodiscard]] Mutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] int epoll() const noexcept { return epoll_; }
  [[nodiscard]] std::size_t lost_peers() const noexcept { return lost_peers_.load(std::memory_order_relaxed); }

  int learn(const TcpIdentity& identity) {
    const auto found = by_id_.find(identity.id);
    if (found != by_id_.end()) return found->second;
    const int index = static_cast<int>(peers_.size());
    peers_.push_back(std::make_unique<Peer>(*this, index, identity, key_of(identity_, identity)));
    by_id_.emplace(identity.id, index);
    return index;
  }

  void post(int peer, std::uint64_t group, std::span<const std::byte> message) {
    Peer& to = *peers_[static_cast<std::size_t>(peer)];
    if (!to.why.empty()) return;  // as a message to a process that has ended
    OutgoingFrame frame{
        {.kind = FrameKind::message, .bytes = static_cast<std::uint32_t>(message.size()), .group = group}};
    frame.own.assign(message.begin(), message.end());
    push(to, TcpLine::small, std::move(frame));
  }

  bool has_left(int peer) {
    const Peer& to = *peers_[static_cast<std::size_t>(peer)];
    return !to.why.empty() || to.small.channel.has_left();
  }

  std::optional<Message> poll(std::uint64_t group) { return groups_.poll(group); }

  void close_group(std::uint64_t group) {
    if (!groups_.close(group)) return;
    for (const auto& peer : peers_) peer->transfers.forget_dropped();
  }

  void drop_before(std::uint64_t group, std::uint64_t tag) {
    groups_.drop_before(group, tag);
    for (const auto& peer : peers_) peer->transfers.forget_dropped();
  }

  [[nodiscard]] TcpTransfers& transfers_with(int peer) { return peers_[static_cast<std::size_t>(peer)]->transfers; }

  void cancel(TcpTransfer& transfer) {
    if (transfer.state_ == State::pending) transfers_with(transfer.peer_).cancel(transfer);
  }

  /// There was no memory to cancel `transfer`.
  void give_up(TcpTransfer& transfer) {
    lose(*peers_[static_cast<std::size_t>(transfer.peer_)], no_memory_text);
    transfer.state_ = State::idle;
  }

  void progress(int timeout_ms) {
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < count; ++i) handle(events[static_cast<std::size_t>(i)]);
    if (has_timers()) look_at_timers();
  }

  std::optional<Loss> loss_of(int peer, std::uint64_t group) const {
    const Peer& lost = *peers_[static_cast<std::size_t>(peer)];
    if (lost.why.empty()) return std::nullopt;
    return groups_.has_message_of(peer, group) ? std::nullopt : std::optional(Loss{lost.why, lost.has_left});
  }

 private:
  struct Peer;

  /// One of the two connections to a peer.
  struct Line final : FrameHandler {
    Line(Peer& of_peer, TcpLine of_line) : peer(of_peer), number(of_line) { fault.reserve(most_text); }
    ~Line() override { end_dial(); }

    std::byte* begin(const FrameHeader& header) override { return peer.transfers.begin_frame(number, header, fault); }
    void end(const FrameHeader& header) override {
      peer.transfers.end_frame(number, header, fault);
      has_farewell = has_farewell || header.kind == FrameKind::farewell;
    }
    void left(const OutgoingFrame& frame) override { peer.transfers.frame_has_left(number, frame); }
    void end_dial() noexcept {
      if (dial_socket >= 0) ::close(dial_socket);
      dial_socket = -1;
      handshake.reset();
    }

    Peer& peer;
    const TcpLine number;
    TcpChannel channel;
    bool awaits_room = false;  // whether epoll tells when the socket takes more
    bool has_farewell = false;
    int send_error = 0;
    std::string fault;  // what the other side has done against the protocol

    // a connection that this process makes
    int dial_socket = -1;
    bool is_connected = false;  // the other host has accepted it
    std::optional<TcpHandshake> handshake;
    std::size_t next_address = 0;
    std::optional<Clock::time_point> dial_at;  // the next attempt; while there is a dial_socket: its end
    std::chrono::milliseconds pause = first_pause;
  };

  struct Peer final : TcpConnections {
    Peer(Implementation& of_network, int of_index, const TcpIdentity& of_process, const SipHashKey& of_pair)
        : network(of_network), index(of_index), identity(of_process), key(of_pair) {
      why.reserve(most_text);
      why_ending.reserve(most_text);
    }

    [[nodiscard]] Line& line(TcpLine number) noexcept { return number == TcpLine::small ? small : bulk; }
    TcpChannel& channel(TcpLine number) noexcept override { return line(number).channel; }
    void push(TcpLine number, OutgoingFrame&& frame) override { network.push(*this, number, std::move(frame)); }
    bool are_ending() const noexcept override { return is_ending; }
    void lose(std::string_view text) override { network.lose(*this, text); }

    Implementation& network;
    const int index;
    const TcpIdentity identity;
    const SipHashKey key;
    Line small{*this, TcpLine::small};
    Line bulk{*this, TcpLine::bulk};
    TcpTransfers transfers{index, network.groups_, *this};
    std::string why;                                 // the connections have ended; empty if not
    bool is_ending = false;                          // one has, and the other one may still bring data
    std::string why_ending;                          // of the first that has ended
    bool has_left = false;                           // the other process has said that it ends its connections
    Clock::time_point end_at;                        // while it is ending: when nothing is awaited any more
    std::optional<Clock::time_point> refused_since;  // the system refuses connections to it
  };

  /// A connection whose other side has not proved yet who it is.
  struct Stranger {
    Stranger(std::uint64_t of_key, int of_socket, std::uint64_t own) : key(of_key), socket(of_socket), handshake(own) {}
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    ~Stranger() {
      if (socket >= 0) ::close(socket);
    }
    const std::uint64_t key;
    int socket;
    TcpHandshake handshake;
    Clock::time_point since = Clock::now();
    bool awaits_identity = false;
    Line* line = nullptr;  // that it will be
  };

  static constexpr std::uint64_t listener_key = 0;
  static constexpr std::uint64_t first_stranger_key = std::uint64_t{1} << 32;
  [[nodiscard]] static std::uint64_t key_of_line(const Line& line) noexcept {
    return 1 + 2 * static_cast<std::uint64_t>(line.peer.index) + static_cast<std::uint64_t>(line.number);
  }

  // ---- sockets

  void listen_on_port() {
    const bool has_six = std::any_of(own_.begin(), own_.end(), [](const TcpAddress& each) { return each.family == 6; });
    TcpAddress any;
    any.family = has_six ? 6 : 4;
    const unsigned last = std::max(options_.first_port, options_.last_port);
    int error = 0;
    for (unsigned port = options_.first_port; port <= last && listener_ < 0; ++port) {
      listener_ = socket(has_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      const int off = 0;
      const int on = 1;
      if (has_six) static_cast<void>(setsockopt(listener_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)));
      // connections of an earlier job may still hold the port
      static_cast<void>(setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
      sockaddr_storage address;
      socklen_t size = any.to_socket_address(static_cast<std::uint16_t>(port), address);
      if (listener_ >= 0 && bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
          listen(listener_, SOMAXCONN) == 0 &&
          getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
        identity_.port = ntohs(has_six ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<const sockaddr_in&>(address).sin_port);
        return;
      }
      error = errno;
      if (listener_ >= 0) ::close(listener_);
      listener_ = -1;
    }
    throw_error(Code::unavailable, "no port from {} to {} is free for connections of other ranks: {}",
                options_.first_port, last, std::strerror(error));
  }

  /// Returns whether the events of `socket` are told from now on. If not, the reason has been logged.
  [[nodiscard]] bool watch(int socket, std::uint32_t events, std::uint64_t key) {
    epoll_event event{.events = events, .data = {.u64 = key}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) == 0) return true;
    if (errno == EEXIST && epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event) == 0) return true;
    warn_once("epoll_ctl", errno);
    return false;
  }

  /// What is missing may come back, and then the connection is made; else operations time out.
  void warn_once(std::string_view call, int error) {
    if (std::exchange(has_warned_, true)) return;
    log_warning("connections over TCP: {}: {}; they are tried again until the deadline", call, std::strerror(error));
  }

  void configure(int socket) const {
    const int on = 1;
    const auto seconds = std::clamp<std::int64_t>(options_.silence.count() / 1000, 2, 20'000);
    const auto idle = static_cast<int>(seconds / 2);
    const auto interval = static_cast<int>(std::max<std::int64_t>(1, seconds / 20));
    const int probes = 10;
    static_cast<void>(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
    static_cast<void>(setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
    static_cast<void>(setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)));
    static_cast<void>(setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval)));
    static_cast<void>(setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)));
  }

  void handle(const epoll_event& event) {
    const std::uint64_t key = event.data.u64;
    if (key == listener_key) return accept_all();
    if (key >= first_stranger_key) return meet_stranger(key);
    Peer& peer = *peers_[(key - 1) / 2];
    Line& line = peer.line(static_cast<TcpLine>((key - 1) % 2));
    if (line.dial_socket >= 0) return go_on_dialing(line);
    if (!line.channel.is_open()) return;
    if ((event.events & EPOLLOUT) != 0) flush(line);
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) pump(line);
  }

  // ---- connections that other processes make

  void accept_all() {
    for (int count = 0; count < most_accepted; ++count) {
      // the others stay with the system until there is room
      const bool is_full = strangers_.size() >= most_strangers;
      if (is_full && Clock::now() - strangers_.front().since < time_of_youth) return;
      const int socket = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) {  // without a descriptor the connection stays with the system
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) warn_once("accept", errno);
        return;
      }
      if (is_full) strangers_.pop_front();
      try {
        strangers_.emplace_back(++last_stranger_key_, socket, identity_.id);
      } catch (const std::bad_alloc&) {
        ::close(socket);
        throw;
      }
      if (watch(socket, EPOLLIN, last_stranger_key_)) {
        meet_stranger(last_stranger_key_);
      } else {
        strangers_.pop_back();
      }
    }
  }

  void meet_stranger(std::uint64_t key) {
    const auto found =
        std::find_if(strangers_.begin(), strangers_.end(), [key](const Stranger& each) { return each.key == key; });
    if (found != strangers_.end() && !go_on_with(*found)) strangers_.erase(found);
  }

  /// Returns whether `stranger` remains one.
  [[nodiscard]] bool go_on_with(Stranger& stranger) {
    for (;;) {
      const auto outcome = stranger.handshake.advance(stranger.socket);
      if (outcome == TcpHandshake::Outcome::waits) return true;
      if (outcome == TcpHandshake::Outcome::failed) return false;
      if (outcome == TcpHandshake::Outcome::done) {
        if (stranger.line->channel.is_open() || stranger.line->peer.is_ending) return false;
        open(*stranger.line, stranger.socket, stranger.handshake);
        return false;
      }
      const TcpGreeting& greeting = stranger.handshake.greeting();
      const auto known = by_id_.find(greeting.from);
      stranger.awaits_identity = known == by_id_.end();
      if (stranger.awaits_identity) return true;  // this process may learn of it soon
      Peer& peer = *peers_[static_cast<std::size_t>(known->second)];
      if (greeting.line >= tcp_lines.size()) return false;
      Line& line = peer.line(static_cast<TcpLine>(greeting.line));
      if (!may_accept(peer, line)) return false;
      stranger.line = &line;
      if (identity_.id > peer.identity.id) stranger.line->end_dial();
      stranger.handshake.use(peer.key);
    }
  }

  /// If both processes make a connection at the same time, that of the process with the greater id is kept: the other
  /// process accepts it while it makes its own, and this one does not. No process begins to make a connection while it
  /// is accepting one, so that no two of them can come about and be closed by one side each.
  [[nodiscard]] bool may_accept(const Peer& peer, const Line& line) const {
    if (peer.is_ending || line.channel.is_open()) return false;
    return line.dial_socket < 0 || !line.is_connected || identity_.id < peer.identity.id;
  }

  // ---- connections that this process makes

  void push(Peer& peer, TcpLine number, OutgoingFrame&& frame) {
    if (peer.is_ending) return;
    Line& line = peer.line(number);
    line.channel.push(std::move(frame));
    try {
      start_to_send(line);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the frame is queued, and later calls go on
    }
  }

  void start_to_send(Line& line) {
    if (line.channel.is_open()) {
      flush(line);
    } else if (line.dial_socket < 0 && !line.dial_at) {
      dial(line);
    }
    if (!line.channel.has_left()) call_helper();
  }

  [[nodiscard]] bool is_being_accepted(const Line& line) const {
    return std::any_of(strangers_.begin(), strangers_.end(), [&](const Stranger& each) {
      return each.line == &line && Clock::now() - each.since < time_of_acceptance;
    });
  }

  void dial(Line& line) {
    line.dial_at = Clock::now() + line.pause;
    const std::vector<TcpAddress> addresses = addresses_to_try(line.peer.identity, own_);
    if (addresses.empty() || is_being_accepted(line)) return;
    if (line.next_address >= addresses.size()) {
      line.next_address = 0;
      line.pause = std::min(2 * line.pause, std::chrono::milliseconds(1000));
    }
    const TcpAddress& to = addresses[line.next_address++];
    const int made = socket(to.family == 6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return warn_once("socket", errno);
    sockaddr_storage address;
    const socklen_t size = to.to_socket_address(line.peer.identity.port, address);
    if (connect(made, reinterpret_cast<const sockaddr*>(&address), size) != 0 && errno != EINPROGRESS) {
      ::close(made);
      return;
    }
    line.dial_socket = made;
    line.is_connected = false;
    // an address that drops packets must not keep the others from being tried soon
    line.dial_at = Clock::now() + (line.pause == first_pause ? time_of_first_connect : time_of_connect);
    line.handshake.emplace(identity_.id, line.peer.identity.id, static_cast<std::uint64_t>(line.number), line.peer.key);
    if (!watch(made, EPOLLIN | EPOLLOUT, key_of_line(line))) try_later(line);
  }

  void try_later(Line& line) noexcept {
    line.end_dial();
    line.dial_at = Clock::now() + line.pause;
  }

  void go_on_dialing(Line& line) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(line.dial_socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    auto outcome = TcpHandshake::Outcome::failed;
    if (error == 0) {
      // from now on, only an error ends it: the other process may be busy for long, and may have accepted it then
      line.is_connected = true;
      line.dial_at.reset();
      line.peer.refused_since.reset();
      outcome = line.handshake->advance(line.dial_socket);
    }
    if (outcome == TcpHandshake::Outcome::waits) {
      if (!watch(line.dial_socket, EPOLLIN, key_of_line(line))) try_later(line);
      return;
    }
    if (outcome == TcpHandshake::Outcome::done) {
      return open(line, line.dial_socket, *line.handshake);
    }
    try_later(line);
    if (error == ECONNREFUSED) note_refusal(line.peer);
  }

  /// Its process listens before others know it.
  void note_refusal(Peer& peer) {
    const Clock::time_point now = Clock::now();
    if (!peer.refused_since) peer.refused_since = now;
    const bool is_open = peer.small.channel.is_open() || peer.bulk.channel.is_open();
    if (now - *peer.refused_since > time_of_refusals && !is_open) lose(peer, text_of(ECONNREFUSED));
  }

  [[nodiscard]] bool has_timers() const noexcept { return open_lines_ < 2 * peers_.size() || !strangers_.empty(); }

  void look_at_timers() {
    const Clock::time_point now = Clock::now();
    if (now < next_look_) return;
    next_look_ = now + std::chrono::milliseconds(5);
    for (const auto& peer : peers_) {
      if (peer->is_ending && peer->why.empty() && now > peer->end_at) lose(*peer, peer->why_ending);
      for (Line* const line : {&peer->small, &peer->bulk}) {
        if (!line->dial_at || now < *line->dial_at || line->channel.is_open() || peer->is_ending) continue;
        line->end_dial();
        dial(*line);
      }
    }
    for (auto each = strangers_.begin(); each != strangers_.end();) {
      const bool is_over = now - each->since > time_of_identity;
      const bool stays = !is_over && (!each->awaits_identity || go_on_with(*each));
      each = stays ? std::next(each) : strangers_.erase(each);
    }
  }

  /// `connected` is -1 afterwards if the line has taken the socket.
  void open(Line& line, int& connected, const TcpHandshake& handshake) {
    std::unique_ptr<SealedStream> seal;
    try {
      if (options_.encrypts) seal = std::make_unique<SealedStream>(handshake.keys());
    } catch (const std::bad_alloc&) {
      return lose(line.peer, no_memory_text);
    } catch (const Error& error) {
      return lose(line.peer, error.text());
    }
    const int socket = std::exchange(connected, -1);
    configure(socket);
    line.end_dial();
    line.dial_at.reset();
    line.channel.open(socket, std::move(seal));
    line.awaits_room = false;
    ++open_lines_;
    if (!watch(socket, EPOLLIN, key_of_line(line))) return lose(line.peer, unwatched_text);
    flush(line);
    if (line.channel.is_open()) pump(line);
  }

  // ---- frames

  void flush(Line& line) {
    int error = 0;
    try {
      error = line.channel.send_some(line);
    } catch (const std::bad_alloc&) {
      if (!is_receiving_) return lose(line.peer, no_memory_text);
      line.fault = no_memory_text;
      error = ENOMEM;
    }
    if (error != 0) {
      line.send_error = error;
      if (!is_receiving_) end(line, text_of(error));  // else the caller does that
      return;
    }
    const bool awaits = !line.channel.has_left();
    if (awaits == line.awaits_room) return;
    const std::uint32_t events = EPOLLIN | (awaits ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    if (watch(line.channel.socket(), events, key_of_line(line))) line.awaits_room = awaits;
  }

  void pump(Line& line) {
    if (!line.channel.is_open()) return;
    const int error = receive(line);
    if (!line.fault.empty()) return lose(line.peer, line.fault);
    if (error != 0 || line.has_farewell) return end(line, line.has_farewell ? farewell_text : text_of(error));
    Peer& peer = line.peer;
    for (Line* const each : {&peer.small, &peer.bulk}) {
      if (!each->fault.empty()) return lose(peer, each->fault);
      if (each->send_error != 0 || (!each->channel.has_left() && !each->awaits_room && each->channel.is_open()))
        flush(*each);
    }
    if (!peer.is_ending || !peer.why.empty()) return;
    peer.end_at = Clock::now() + time_of_rest;
    end_if_over(peer);
  }

  static constexpr const char* no_memory_text = "this rank has no memory for the connection";
  static constexpr const char* unwatched_text = "this rank cannot wait for the connection";
  static constexpr const char* farewell_text = "it has ended its connections";
  [[nodiscard]] static std::string text_of(int error) {
    // whether this process sends or receives at the end of the other one makes no difference
    return fmt::format("the connection has ended: {}", std::strerror(error == EPIPE ? ECONNRESET : error));
  }

  /// A connection has ended. What has come over the other one, or was sent over it before, is received first.
  void end(Line& line, const std::string& why) {
    Peer& peer = line.peer;
    if (!line.channel.is_open()) return;
    peer.is_ending = true;
    while (receive(line) == 0 && line.channel.has_more()) {}
    if (peer.why_ending.empty()) peer.why_ending = why;
    close(line);
    if (!line.fault.empty()) return lose(peer, line.fault);
    peer.has_left = peer.has_left || line.has_farewell;
    peer.end_at = Clock::now() + time_of_rest;
    end_if_over(peer);
  }

  /// One of the connections to `peer` has ended. The other one brings what is still on its way.
  void end_if_over(Peer& peer) {
    const bool awaits_data = peer.bulk.channel.is_open() && peer.transfers.await_data();
    if (!peer.small.channel.is_open() && !awaits_data) lose(peer, peer.why_ending);
  }

  [[nodiscard]] int receive(Line& line) {
    is_receiving_ = true;
    int error = 0;
    try {
      error = line.channel.receive_some(line, room_);
    } catch (const std::bad_alloc&) {  // in the middle of a frame, so that nothing more can be read
      line.fault = no_memory_text;
    }
    is_receiving_ = false;
    return error;
  }

  void close(Line& line) {
    if (line.channel.is_open()) --open_lines_;
    line.peer.transfers.line_has_ended(line.number);
    line.channel.close();
    line.end_dial();
    line.dial_at.reset();
    line.awaits_room = false;
    line.send_error = 0;
  }

  /// Allocates nothing if `why` is short.
  void lose(Peer& peer, std::string_view why) {
    if (!peer.why.empty()) return;
    peer.why = why.empty() ? no_memory_text : why;
    peer.is_ending = true;
    lost_peers_.fetch_add(1, std::memory_order_relaxed);
    for (Line* const line : {&peer.small, &peer.bulk}) close(*line);
    peer.transfers.fail_all();
  }

  // ---- the thread that sends what has not left

  void call_helper() {
    if (is_helping_ || is_stopping_) return;
    if (!helper_.joinable()) {
      try {
        helper_ = start_thread({"the thread that sends over TCP", ""}, [this] { help(); });
      } catch (const Error& error) {  // what remains leaves in later calls
        log_warning("{}", error.text());
        return;
      }
    }
    is_helping_ = true;
    helper_calls_.notify_one();
  }

  [[nodiscard]] bool has_frames() const {
    return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
      return !peer->is_ending && (!peer->small.channel.has_left() || !peer->bulk.channel.has_left());
    });
  }

  void help() {
    MutexLock lock(mutex_);
    while (!is_stopping_) {
      is_helping_ = has_frames();
      if (!is_helping_) {
        lock.wait(helper_calls_);
        continue;
      }
      // mostly the calls of the engines are faster
      static_cast<void>(lock.wait_until(helper_calls_, Clock::now() + time_of_help));
      if (is_stopping_) return;
      try {
        for (int turn = 0; turn < most_turns_of_help && has_frames() && !is_stopping_; ++turn) {
          progress(0);
          lock.unlock();  // the engines come first
          lock.lock();
        }
      } catch (const std::exception& error) {
        log_warning("connections over TCP: {}", error.what());
      }
    }
  }

  void stop_helper() {
    {
      const MutexLock lock(mutex_);
      is_stopping_ = true;
      helper_calls_.notify_one();
    }
    if (helper_.joinable()) helper_.join();
  }

  // ---- the end

  /// Waits until what was sent has arrived in the memory of the other hosts.
  void say_farewell() {
    const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
    for (const auto& peer : peers_) {
      for (Line* const line : {&peer->small, &peer->bulk}) {
        if (line->channel.is_open() || !line->channel.has_left())
          push(*peer, line->number, {{.kind = FrameKind::farewell}});
      }
    }
    const auto is_under_way = [](const Line& line) {
      int bytes = 0;
      if (!line.channel.is_open()) return !line.channel.has_left() && !line.peer.is_ending;
      return !line.channel.has_left() || (ioctl(line.channel.socket(), SIOCOUTQ, &bytes) == 0 && bytes > 0);
    };
    for (;;) {
      const bool any = std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
        return is_under_way(peer->small) || is_under_way(peer->bulk);
      });
      if (!any || Clock::now() > end) return;
      progress(1);
    }
  }

  Mutex mutex_;
  TcpOptions options_;
  std::vector<TcpAddress> own_;
  TcpIdentity identity_;
  int epoll_ = -1;
  int listener_ = -1;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_map<std::uint64_t, int> by_id_;
  std::list<Stranger> strangers_;
  std::uint64_t last_stranger_key_ = first_stranger_key;
  std::size_t open_lines_ = 0;
  Clock::time_point next_look_{};
  TcpGroups groups_;
  std::atomic<std::size_t> lost_peers_{0};
  std::thread helper_;
  std::condition_variable helper_calls_;
  bool is_helping_ = false;
  bool is_stopping_ = false;
  bool is_receiving_ = false;
  bool has_warned_ = false;
  std::array<std::byte, std::size_t{64} << 10> room_;
};

// ---- the public functions lock

TcpNetwork::TcpNetwork(TcpOptions options) : implementation_(std::make_unique<Implementation>(std::move(options))) {}
TcpNetwork::~TcpNetwork() = default;

/// Sockets are closed where a program is executed, but not by `fork`. A child that keeps them would keep the other
/// processes from learning of the parent's end.
class TcpNetwork::OfProcess {
 public:
  static OfProcess& get() {
    static NeverDestroyed<OfProcess> of_process;
    return *of_process;
  }
  std::shared_ptr<TcpNetwork> network(const TcpOptions& options) {
    const MutexLock lock(mutex_);
    auto network = known_.lock();
    if (network != nullptr && network->identity().encrypts != options.encrypts) {
      throw_error(
          Code::failed_precondition,
          "LOCKSTEP_ENCRYPTION has changed since the first communicator of this process was made, which is still "
          "in use");
    }
    if (network == nullptr) {
      if (!std::exchange(sees_forks_, true)) pthread_atfork(before_fork, in_parent, in_child);
      known_ = network = std::make_shared<TcpNetwork>(options);
    }
    return network;
  }

 private:
  // The analysis cannot follow locks that are held across functions.
  static void before_fork() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS {
    OfProcess& own = get();
    own.mutex_.lock();
    own.forking_ = own.known_.lock();
    if (own.forking_) own.forking_->implementation_->mutex().lock();
  }
  static void in_parent() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS {
    OfProcess& own = get();
    const std::shared_ptr<TcpNetwork> network = std::move(own.forking_);  // its end waits, without a lock
    if (network) network->implementation_->mutex().unlock();
    own.mutex_.unlock();
  }
  static void in_child() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS {
    OfProcess& own = get();
    own.known_.reset();
    if (const std::shared_ptr<TcpNetwork> network = std::move(own.forking_)) {
      network->implementation_->leave_to_parent();
      network->implementation_->mutex().unlock();
      leak(new std::shared_ptr<TcpNetwork>(network));  // its thread is the parent's, so that it must not be destroyed
    }
    own.mutex_.unlock();
  }

  Mutex mutex_;
  std::weak_ptr<TcpNetwork> known_ LOCKSTEP_GUARDED_BY(mutex_);
  std::shared_ptr<TcpNetwork> forking_ LOCKSTEP_GUARDED_BY(mutex_);  // while a thread forks
  bool sees_forks_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<TcpNetwork> TcpNetwork::of_this_process(const TcpOptions& options) {
  return OfProcess::get().network(options);
}
std::uint64_t TcpNetwork::new_token() { return random_word(); }

const TcpIdentity& TcpNetwork::identity() const noexcept { return implementation_->identity(); }
std::size_t TcpNetwork::lost_peers() const noexcept { return implementation_->lost_peers(); }

int TcpNetwork::learn(const TcpIdentity& identity) {
  const MutexLock lock(implementation_->mutex());
  return implementation_->learn(identity);
}
void TcpNetwork::post(int peer, std::uint64_t group, std::span<const std::byte> message) {
  const MutexLock lock(implementation_->mutex());
  implementation_->post(peer, group, message);
}
bool TcpNetwork::has_left(int peer) {
  const MutexLock lock(implementation_->mutex());
  return implementation_->has_left(peer);
}
std::optional<TcpNetwork::Message> TcpNetwork::poll(std::uint64_t group) {
  const MutexLock lock(implementation_->mutex());
  return implementation_->poll(group);
}
void TcpNetwork::close_group(std::uint64_t group) {
  const MutexLock lock(implementation_->mutex());
  implementation_->close_group(group);
}
void TcpNetwork::send(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t tag,
                      std::span<const std::byte> data) {
  const MutexLock lock(implementation_->mutex());
  implementation_->transfers_with(peer).send(transfer, group, tag, data);
}
void TcpNetwork::receive(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t tag,
                         std::span<std::byte> data) {
  const MutexLock lock(implementation_->mutex());
  implementation_->transfers_with(peer).receive(transfer, group, tag, data);
}
void TcpNetwork::send_by_number(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t number,
                                std::span<const std::byte> data) {
  const MutexLock lock(implementation_->mutex());
  implementation_->transfers_with(peer).send_by_number(transfer, group, number, data);
}
void TcpNetwork::receive_by_number(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t number,
                                   std::span<std::byte> data) {
  const MutexLock lock(implementation_->mutex());
  implementation_->transfers_with(peer).receive_by_number(transfer, group, number, data);
}
TcpTransfer::State TcpNetwork::state(const TcpTransfer& transfer) {
  const MutexLock lock(implementation_->mutex());
  return transfer.state_;
}
std::size_t TcpNetwork::moved_bytes(const TcpTransfer& transfer) {
  const MutexLock lock(implementation_->mutex());
  return transfer.moved_;
}
void TcpNetwork::cancel(TcpTransfer& transfer) noexcept {
  const MutexLock lock(implementation_->mutex());
  try {
    implementation_->cancel(transfer);
  } catch (const std::bad_alloc&) {
    implementation_->give_up(transfer);
  }
}
void TcpNetwork::drop_before(std::uint64_t group, std::uint64_t tag) {
  const MutexLock lock(implementation_->mutex());
  implementation_->drop_before(group, tag);
}
void TcpNetwork::progress() {
  const MutexLock lock(implementation_->mutex());
  implementation_->progress(0);
}
void TcpNetwork::sleep(std::chrono::microseconds limit) const {
  // epoll tells of the same events again, so that a wait without the lock loses none
  pollfd events{.fd = implementation_->epoll(), .events = POLLIN, .revents = 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(limit - seconds).count()};
  static_cast<void>(ppoll(&events, 1, &time, nullptr));
}
std::optional<TcpNetwork::Loss> TcpNetwork::loss_of(int peer, std::uint64_t group) {
  const MutexLock lock(implementation_->mutex());
  return implementation_->loss_of(peer, group);
}

}  // namespace lockstep::detail
