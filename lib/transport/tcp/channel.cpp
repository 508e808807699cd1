// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/channel.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::size_t most_parts = 16;  // of one system call
constexpr int most_turns = 4;
/// Of one call: a stream of data must not keep small frames of other channels waiting.
constexpr std::size_t most_sent = std::size_t{1536} << 10;
constexpr int most_records = 8;  // of one call, if they are sealed

bool is_again(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

void TcpChannel::close() noexcept {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  seal_.reset();
  sealed_.clear();
  outgoing_.clear();
  header_bytes_ = payload_left_ = 0;
  target_ = nullptr;
}

void TcpChannel::push(OutgoingFrame&& frame) {
  outgoing_.push_back(std::move(frame));
  OutgoingFrame& last = outgoing_.back();
  if (!last.own.empty()) last.payload = last.own.data();
}

bool TcpChannel::disown(const void* owner) {
  for (OutgoingFrame& frame : sealed_) {
    if (frame.owner == owner) frame.owner = nullptr;
  }
  const auto frame = std::find_if(outgoing_.begin(), outgoing_.end(),
                                  [owner](const OutgoingFrame& each) { return each.owner == owner; });
  if (frame == outgoing_.end()) return false;
  if (frame->sent == 0) {
    outgoing_.erase(frame);
    return true;
  }
  frame->own.assign(frame->payload, frame->payload + frame->header.bytes);
  frame->payload = frame->own.data();
  frame->owner = nullptr;
  return false;
}

void TcpChannel::stop_storing_at(const std::byte* begin, const std::byte* end) noexcept {
  if (target_ >= begin && target_ < end) target_ = nullptr;
}

int TcpChannel::send_some(FrameHandler& handler) {
  if (seal_) return send_sealed(handler);
  for (std::size_t total = 0; is_open() && !outgoing_.empty() && total < most_sent;) {
    std::array<iovec, most_parts> parts;
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (OutgoingFrame& frame : outgoing_) {
      if (count + 2 > parts.size() || bytes >= most_sent) break;
      bytes += sizeof(FrameHeader) + frame.header.bytes - frame.sent;
      std::size_t sent = frame.sent;
      if (sent < sizeof(FrameHeader)) {
        parts[count++] = {reinterpret_cast<std::byte*>(&frame.header) + sent, sizeof(FrameHeader) - sent};
        sent = sizeof(FrameHeader);
      }
      sent -= sizeof(FrameHeader);
      if (sent < frame.header.bytes)
        parts[count++] = {const_cast<std::byte*>(frame.payload) + sent, frame.header.bytes - sent};  // only read
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t result = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result < 0) {
      if (errno == EINTR) continue;
      return is_again(errno) || errno == ENOBUFS ? 0 : errno;
    }
    total += static_cast<std::size_t>(result);
    note_sent(static_cast<std::size_t>(result), [&](const OutgoingFrame& frame) { handler.left(frame); });
  }
  return 0;
}

/// A frame has left when the record with its last byte has.
int TcpChannel::send_sealed(FrameHandler& handler) {
  for (std::size_t total = 0; is_open() && total < most_sent;) {
    if (const int error = seal_->flush(socket_)) return error;
    if (!seal_->has_left()) return 0;
    for (const OutgoingFrame& frame : std::exchange(sealed_, {})) {
      if (frame.owner != nullptr) handler.left(frame);
    }
    if (outgoing_.empty()) return 0;
    const std::span<std::byte> room = seal_->room();
    std::size_t bytes = 0;
    while (bytes < room.size() && !outgoing_.empty()) {
      const OutgoingFrame& frame = outgoing_.front();
      const auto header = std::as_bytes(std::span(&frame.header, 1));
      const bool is_header = frame.sent < header.size();
      const auto rest = is_header ? header.subspan(frame.sent)
                                  : std::span(frame.payload, frame.header.bytes).subspan(frame.sent - header.size());
      const std::size_t count = std::min(rest.size(), room.size() - bytes);
      std::memcpy(room.data() + bytes, rest.data(), count);
      bytes += count;
      try {
        note_sent(count, [&](const OutgoingFrame& frame) { sealed_.push_back(frame); });
      } catch (const std::bad_alloc&) {
        seal_->end();
        throw;
      }
    }
    if (const int error = seal_->seal(bytes)) return error;
    total += bytes;
  }
  return 0;
}

/// Takes `bytes` bytes of the outgoing frames as sent. Calls `left` for each frame with an owner whose last byte is
/// among them.
template <class Left>
void TcpChannel::note_sent(std::size_t bytes, const Left& left) {
  while (bytes > 0) {
    OutgoingFrame& frame = outgoing_.front();
    const std::size_t whole = sizeof(FrameHeader) + frame.header.bytes;
    const std::size_t taken = std::min(bytes, whole - frame.sent);
    frame.sent += taken;
    bytes -= taken;
    if (frame.sent < whole) return;
    const OutgoingFrame done = std::move(frame);
    outgoing_.pop_front();
    if (done.owner != nullptr) left(done);
  }
}

int TcpChannel::receive_some(FrameHandler& handler, std::span<std::byte> room) {
  has_more_ = false;
  if (seal_) return receive_sealed(handler);
  for (int turn = 0; turn < most_turns && is_open(); ++turn) {
    std::array<iovec, 2> parts;
    std::size_t count = 0;
    const std::size_t direct = header_bytes_ == sizeof(FrameHeader) && target_ != nullptr ? payload_left_ : 0;
    if (direct > 0) parts[count++] = {target_, direct};
    parts[count++] = {room.data(), room.size()};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t result = recvmsg(socket_, &message, MSG_DONTWAIT);
    if (result < 0) {
      if (errno == EINTR) continue;
      return is_again(errno) ? 0 : errno;
    }
    if (result == 0) return ECONNRESET;
    auto bytes = static_cast<std::size_t>(result);
    const std::size_t stored = std::min(bytes, direct);
    const bool is_full = bytes == direct + room.size();
    if (stored > 0) {
      target_ += stored;
      payload_left_ -= stored;
      bytes -= stored;
      if (payload_left_ == 0) end_frame(handler);
    }
    if (const int error = take(room.first(bytes), handler)) return error;
    has_more_ = is_full;
    if (!is_full) return 0;
  }
  return 0;
}

int TcpChannel::receive_sealed(FrameHandler& handler) {
  for (int turn = 0; turn < most_records && is_open(); ++turn) {
    std::span<const std::byte> plain;
    if (const int error = seal_->receive(socket_, plain)) return error;
    if (plain.empty()) return 0;
    if (const int error = take(plain, handler)) return error;
  }
  has_more_ = true;
  return 0;
}

void TcpChannel::end_frame(FrameHandler& handler) {
  header_bytes_ = 0;
  target_ = nullptr;
  handler.end(incoming_);
}

int TcpChannel::take(std::span<const std::byte> bytes, FrameHandler& handler) {
  while (!bytes.empty()) {
    if (header_bytes_ < sizeof(FrameHeader)) {
      const std::size_t count = std::min(bytes.size(), sizeof(FrameHeader) - header_bytes_);
      std::memcpy(reinterpret_cast<std::byte*>(&incoming_) + header_bytes_, bytes.data(), count);
      header_bytes_ += count;
      bytes = bytes.subspan(count);
      if (header_bytes_ < sizeof(FrameHeader)) return 0;
      if (!is_valid(incoming_)) return EPROTO;
      payload_left_ = incoming_.bytes;
      target_ = handler.begin(incoming_);
      if (payload_left_ == 0) end_frame(handler);
      continue;
    }
    const std::size_t count = std::min(bytes.size(), payload_left_);
    if (target_ != nullptr) {
      std::memcpy(target_, bytes.data(), count);
      target_ += count;
    }
    payload_left_ -= count;
    bytes = bytes.subspan(count);
    if (payload_left_ == 0) end_frame(handler);
  }
  return 0;
}

}  // namespace lockstep::detail
