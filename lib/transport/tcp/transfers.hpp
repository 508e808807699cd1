// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The messages and transfers between this process and one other: what waits to leave, what is awaited, and what has
// come before it was awaited. Frames come and go over two connections, which are not the concern of this file.

#pragma once

#include "transport/tcp/channel.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// One end of a transfer in progress. Its owner keeps it at its place until it is not pending any more.
class TcpTransfer {
 public:
  enum class State : std::uint8_t { idle, pending, done, failed };

  TcpTransfer() = default;
  TcpTransfer(const TcpTransfer&) = delete;
  TcpTransfer& operator=(const TcpTransfer&) = delete;

 private:
  friend class TcpNetwork;
  friend class TcpTransfers;
  bool is_send_ = false;
  State state_ = State::idle;
  int peer_ = -1;
  std::uint64_t group_ = 0;
  std::uint64_t tag_ = 0;
  std::uint64_t number_ = 0;  // of the sender, once it is known
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t moved_ = 0;  // bytes that have left this rank or have come
  bool is_eager_ = false;
  bool is_by_number_ = false;  // `tag_` is the number
};

struct TcpMessage {
  int peer;
  std::vector<std::byte> bytes;
};

/// The groups that use the network: the messages that have come for them, and what is dropped when it comes.
class TcpGroups {
 public:
  void add(std::uint64_t group, TcpMessage&& message);
  /// The next message to `group`; none if none has come.
  [[nodiscard]] std::optional<TcpMessage> poll(std::uint64_t group);
  [[nodiscard]] bool has_message_of(int peer, std::uint64_t group) const;
  /// Forgets all that has come for `group`, and all that will come. Returns whether it was not closed before.
  bool close(std::uint64_t group);
  /// Drops the transfers that will come for tags of `group` below `tag`.
  void drop_before(std::uint64_t group, std::uint64_t tag) { first_tags_[group] = tag; }
  /// Whether a transfer with this header is dropped.
  [[nodiscard]] bool drops(const FrameHeader& header) const;

 private:
  std::unordered_map<std::uint64_t, std::deque<TcpMessage>> messages_;
  std::unordered_map<std::uint64_t, std::uint64_t> first_tags_;
  std::unordered_set<std::uint64_t> closed_;
  std::deque<std::uint64_t> closed_in_order_;
};

/// The two connections between two processes.
enum class TcpLine : std::uint8_t { small, bulk };
inline constexpr std::array tcp_lines = {TcpLine::small, TcpLine::bulk};

/// The connections to the other process.
class TcpConnections {
 public:
  TcpConnections() = default;
  TcpConnections(const TcpConnections&) = delete;
  TcpConnections& operator=(const TcpConnections&) = delete;
  virtual ~TcpConnections() = default;

  [[nodiscard]] virtual TcpChannel& channel(TcpLine line) noexcept = 0;
  /// Sends a frame; drops it if the connections are ending.
  virtual void push(TcpLine line, OutgoingFrame&& frame) = 0;
  [[nodiscard]] virtual bool are_ending() const noexcept = 0;
  /// Ends the connections, which calls `TcpTransfers::fail_all`.
  virtual void lose(std::string_view why) = 0;
};

/// Not thread-safe; never waits.
class TcpTransfers {
 public:
  static constexpr std::size_t eager_bytes = std::size_t{128} << 10;
  /// Bytes of eager transfers that the other process has not taken yet; transfers beyond are announced.
  static constexpr std::size_t eager_window = std::size_t{1} << 20;
  static constexpr std::size_t part_bytes = std::size_t{512} << 10;

  /// With the process `peer`, a number among the peers.
  TcpTransfers(int peer, TcpGroups& groups, TcpConnections& connections)
      : peer_(peer), groups_(groups), connections_(connections) {}

  // as in TcpNetwork; after `fail_all`, new transfers fail at once
  void send(TcpTransfer& transfer, std::uint64_t group, std::uint64_t tag, std::span<const std::byte> data);
  void receive(TcpTransfer& transfer, std::uint64_t group, std::uint64_t tag, std::span<std::byte> data);
  void send_by_number(TcpTransfer& transfer, std::uint64_t group, std::uint64_t number,
                      std::span<const std::byte> data);
  void receive_by_number(TcpTransfer& transfer, std::uint64_t group, std::uint64_t number, std::span<std::byte> data);
  /// `transfer` is pending.
  void cancel(TcpTransfer& transfer);

  // what FrameHandler does for the frames of a connection; `fault` becomes what the other process has done against the
  // protocol
  [[nodiscard]] std::byte* begin_frame(TcpLine line, const FrameHeader& header, std::string& fault);
  void end_frame(TcpLine line, const FrameHeader& header, std::string& fault);
  void frame_has_left(TcpLine line, const OutgoingFrame& frame);

  /// A connection has ended, maybe in the middle of a frame.
  void line_has_ended(TcpLine line) noexcept;
  /// Whether data is awaited that the other process has announced.
  [[nodiscard]] bool await_data() const noexcept { return !incoming_.empty(); }
  /// All transfers fail but those that have come as a whole. Allocates nothing.
  void fail_all() noexcept;
  /// Forgets what has come early and is dropped now.
  void forget_dropped();

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // group and tag

  /// A transfer that has come, or was announced, before this process receives it.
  struct EarlyTransfer {
    FrameHeader header;
    std::vector<std::byte> bytes;     // of an eager one
    bool is_whole = false;            // all bytes have come
    TcpTransfer* receiver = nullptr;  // of an eager one of which some bytes are missing
  };
  using EarlyTransfers = std::list<EarlyTransfer>;
  /// The frame that comes now over a connection.
  struct Incoming {
    TcpTransfer* receiving = nullptr;
    std::vector<std::byte> message;
    EarlyTransfers* early_list = nullptr;
  };

  [[nodiscard]] Incoming& coming_over(TcpLine line) noexcept { return coming_[static_cast<std::size_t>(line)]; }
  void begin(TcpTransfer& transfer, bool is_send, std::uint64_t group, std::uint64_t tag, std::byte* data,
             std::size_t size) const;
  [[nodiscard]] std::byte* begin_eager(Incoming& coming, const FrameHeader& header, std::string& fault);
  [[nodiscard]] std::byte* begin_data(Incoming& coming, const FrameHeader& header, std::string& fault);
  void end_eager(const Incoming& coming, const FrameHeader& header);
  void end_data(const Incoming& coming, const FrameHeader& header);
  void end_request(const FrameHeader& header, std::string& fault);
  void end_withdrawal(std::uint64_t number);
  void stop_storing(TcpLine line, const TcpTransfer& transfer) noexcept;
  [[nodiscard]] TcpTransfer* take_posted(const FrameHeader& header, std::string& fault);
  void take_early(std::map<Key, EarlyTransfers>::iterator list, EarlyTransfers::iterator early, TcpTransfer& transfer);
  static void deliver(const EarlyTransfer& early, TcpTransfer& transfer);
  void grant(std::uint64_t number, TcpTransfer& transfer);
  void count_taken(std::size_t bytes);
  [[nodiscard]] static Key incoming_key(const TcpTransfer& transfer) noexcept;
  [[nodiscard]] static OutgoingFrame next_part(const TcpTransfer& transfer);

  const int peer_;
  TcpGroups& groups_;
  TcpConnections& connections_;
  std::uint64_t last_number_ = 0;
  std::size_t eager_in_use_ = 0;                           // bytes that the other side has not taken
  std::size_t taken_ = 0;                                  // bytes that this side has taken, and has not told
  std::unordered_map<std::uint64_t, TcpTransfer*> sends_;  // by number
  std::map<Key, TcpTransfer*> incoming_;                   // see incoming_key
  std::unordered_set<TcpTransfer*> withdrawn_;             // receives whose data does not come any more
  std::map<Key, std::deque<TcpTransfer*>> posted_;
  std::map<Key, EarlyTransfers> early_;
  std::array<Incoming, tcp_lines.size()> coming_;
  bool has_failed_ = false;
};

}  // namespace lockstep::detail
