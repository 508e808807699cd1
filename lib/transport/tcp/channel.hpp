// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives frames over one non-blocking socket.

#pragma once

#include "transport/tcp/frame.hpp"
#include "transport/tcp/sealed_stream.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// A frame that has not left yet.
struct OutgoingFrame {
  FrameHeader header;
  const std::byte* payload = nullptr;  ///< header.bytes bytes, which stay unchanged until the frame has left
  const void* owner = nullptr;         ///< see TcpChannel::disown
  std::vector<std::byte> own = {};     ///< the payload, if the frame owns it
  std::size_t sent = 0;                ///< bytes of header and payload
};

/// Gets the frames of a channel.
class FrameHandler {
 public:
  FrameHandler() = default;
  FrameHandler(const FrameHandler&) = delete;
  FrameHandler& operator=(const FrameHandler&) = delete;
  virtual ~FrameHandler() = default;

  /// The header of a frame has come. Returns where its payload goes, with room for header.bytes; null: it is dropped.
  [[nodiscard]] virtual std::byte* begin(const FrameHeader& header) = 0;
  /// The whole frame has come. Called after `begin`, also if the payload is empty or was dropped.
  virtual void end(const FrameHeader& header) = 0;
  /// The frame has left; the memory of its payload is free.
  virtual void left(const OutgoingFrame& frame) = 0;
};

/// Not thread-safe; never waits.
class TcpChannel {
 public:
  TcpChannel() = default;
  TcpChannel(const TcpChannel&) = delete;
  TcpChannel& operator=(const TcpChannel&) = delete;
  ~TcpChannel() { close(); }

  /// Takes a connected socket. Frames that were pushed before are sent from now on. `seal`: how they are encrypted;
  /// null: they are not.
  void open(int socket, std::unique_ptr<SealedStream> seal = nullptr) noexcept {
    socket_ = socket;
    seal_ = std::move(seal);
  }
  [[nodiscard]] bool is_open() const noexcept { return socket_ >= 0; }
  [[nodiscard]] int socket() const noexcept { return socket_; }
  /// Forgets all frames.
  void close() noexcept;

  void push(OutgoingFrame&& frame);
  [[nodiscard]] bool has_left() const noexcept { return outgoing_.empty() && (!seal_ || seal_->has_left()); }
  /// The memory of the frame with `owner`, if there is one, is free afterwards, and the handler does not get it: a
  /// frame that has not begun is not sent, and what is left of one that has is copied. Returns whether one had not
  /// begun.
  bool disown(const void* owner);
  /// The rest of the payload that goes to `target` now, if one does, is dropped: `target` is free.
  void stop_storing_at(const std::byte* begin, const std::byte* end) noexcept;

  /// Sends what the socket takes, up to one or two MiB. Returns 0 or the number of the error that has ended the
  /// connection.
  [[nodiscard]] int send_some(FrameHandler& handler);
  /// Whether the last call of `receive_some` may have left something.
  [[nodiscard]] bool has_more() const noexcept { return has_more_; }
  /// Receives what has come, up to some hundred KiB; `room` is for what has no target yet. As `send_some`; ECONNRESET
  /// if the other side has ended it.
  [[nodiscard]] int receive_some(FrameHandler& handler, std::span<std::byte> room);

 private:
  [[nodiscard]] int send_sealed(FrameHandler& handler);
  template <class Left>
  void note_sent(std::size_t bytes, const Left& left);
  [[nodiscard]] int receive_sealed(FrameHandler& handler);
  [[nodiscard]] int take(std::span<const std::byte> bytes, FrameHandler& handler);
  void end_frame(FrameHandler& handler);

  int socket_ = -1;
  std::unique_ptr<SealedStream> seal_;
  std::deque<OutgoingFrame> outgoing_;
  std::vector<OutgoingFrame> sealed_;  // that have left when the seal has
  FrameHeader incoming_;
  std::size_t header_bytes_ = 0;  // of `incoming_` that have come
  std::size_t payload_left_ = 0;  // bytes of its payload that have not
  bool has_more_ = false;
  std::byte* target_ = nullptr;  // for the next of them; null: they are dropped
};

}  // namespace lockstep::detail
