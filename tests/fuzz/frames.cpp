// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What comes over a connection of TCP: every input is a stream of bytes. As frames, none goes beyond the memory that it
// was given; as the greeting of a stranger, none proves that it knows the key.

#include "target.hpp"

#include "transport/tcp/channel.hpp"
#include "transport/tcp/handshake.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace lockstep::detail;

/// The end of a connection at which `bytes` have come, after which the other side has ended it.
int connection_with(std::span<const std::uint8_t> bytes) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
  const ssize_t count = send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && !bytes.empty()) std::abort();
  shutdown(ends[1], SHUT_WR);
  // the greeting of the other side has somewhere to go
  static std::optional<int> kept;
  if (kept) close(*kept);
  kept = ends[1];
  return ends[0];
}

class Frames final : public FrameHandler {
 public:
  std::byte* begin(const FrameHeader& header) override {
    if (!is_valid(header) || is_inside_) std::abort();
    is_inside_ = true;
    bytes_ = header.number % 4 == 3 ? 0 : header.bytes;  // some are dropped
    payload_.assign(bytes_, std::byte{0});
    return bytes_ == 0 ? nullptr : payload_.data();
  }
  void end(const FrameHeader& header) override {
    if (!is_inside_ || (bytes_ != 0 && bytes_ != header.bytes)) std::abort();
    is_inside_ = false;
    ++count_;
  }
  void left(const OutgoingFrame&) override { std::abort(); }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  bool is_inside_ = false;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
  std::vector<std::byte> payload_;
};

void read_frames(std::span<const std::uint8_t> input) {
  TcpChannel channel;
  channel.open(connection_with(input));
  Frames frames;
  std::array<std::byte, 100> room{};  // small, so that frames are in several pieces
  while (channel.receive_some(frames, room) == 0) {}
  if (frames.count() * sizeof(FrameHeader) > input.size()) std::abort();
}

void greet(std::span<const std::uint8_t> input) {
  const int end = connection_with(input);
  TcpHandshake handshake(0x0807060504030201U);
  auto outcome = handshake.advance(end);
  if (outcome == TcpHandshake::Outcome::greeted) {
    handshake.use({0x1234'5678'9abc'def0U, 0xfedc'ba98'7654'3210U});
    outcome = handshake.advance(end);
  }
  if (outcome == TcpHandshake::Outcome::done) std::abort();
  close(end);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 64 << 10;  // fits into the socket
  const std::span<const std::uint8_t> input(data, std::min(size, most));
  read_frames(input);
  greet(input);
  return 0;
}
