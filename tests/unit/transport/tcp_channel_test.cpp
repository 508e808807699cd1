// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/channel.hpp"

#include "transport/tcp/sealed_stream.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

/// Both ends of a connection over TCP.
std::array<int, 2> connection() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const to = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, to, size) != 0 || listen(listener, 1) != 0 || getsockname(listener, to, &size) != 0 ||
      connect(one, to, size) != 0)
    throw std::runtime_error("no connection over TCP");
  const int other = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener);
  return {one, other};
}

/// Counts the bytes of payloads that have left and come.
class Counter final : public FrameHandler {
 public:
  std::byte* begin(const FrameHeader& header) override {
    room_.resize(header.bytes);
    return room_.data();
  }
  void end(const FrameHeader& header) override { come += header.bytes; }
  void left(const OutgoingFrame& frame) override { has_left += frame.header.bytes; }

  std::size_t come = 0;
  std::size_t has_left = 0;

 private:
  std::vector<std::byte> room_;
};

class TcpChannelTest : public testing::TestWithParam<bool> {
 protected:
  TcpChannelTest() {
    const auto [one, other] = connection();
    constexpr SipHashCode there{1, 2};
    constexpr SipHashCode back{3, 4};
    const auto seal = [&](const SealKeys& keys) { return GetParam() ? std::make_unique<SealedStream>(keys) : nullptr; };
    sender_.open(one, seal({there, back}));
    receiver_.open(other, seal({back, there}));
  }
  void push(std::size_t bytes) {
    const OutgoingFrame frame{
        {.kind = FrameKind::data, .bytes = static_cast<std::uint32_t>(bytes)}, data_.data(), data_.data()};
    sender_.push(OutgoingFrame(frame));
  }

  std::vector<std::byte> data_ = std::vector<std::byte>(FrameHeader::most_bytes);
  TcpChannel sender_;
  TcpChannel receiver_;
  Counter counter_;
  std::vector<std::byte> room_ = std::vector<std::byte>(std::size_t{64} << 10);
};

INSTANTIATE_TEST_SUITE_P(Connections, TcpChannelTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "encrypted" : "in_clear"; });

TEST_P(TcpChannelTest, brings_frames_of_all_sizes) {
  std::size_t pushed = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{32'728}, std::size_t{100'000},
                                  std::size_t{FrameHeader::most_bytes}}) {
    push(bytes);
    pushed += bytes;
  }
  while (counter_.come < pushed) {
    ASSERT_EQ(sender_.send_some(counter_), 0);
    ASSERT_EQ(receiver_.receive_some(counter_, room_), 0);
  }
  EXPECT_TRUE(sender_.has_left());
  EXPECT_EQ(counter_.has_left, pushed);
}

/// So that a stream keeps the small frames of other channels waiting only briefly.
TEST_P(TcpChannelTest, sends_a_part_of_a_stream_in_one_call) {
  constexpr std::size_t part = std::size_t{256} << 10;
  constexpr std::size_t frames = 32;
  for (std::size_t i = 0; i < frames; ++i) push(part);
  std::size_t most = 0;
  while (counter_.come < frames * part) {
    const std::size_t before = counter_.has_left;
    ASSERT_EQ(sender_.send_some(counter_), 0);
    most = std::max(most, counter_.has_left - before);
    do {
      ASSERT_EQ(receiver_.receive_some(counter_, room_), 0);
    } while (receiver_.has_more());
  }
  EXPECT_LE(most, 8 * part);
}

}  // namespace
}  // namespace lockstep::detail
