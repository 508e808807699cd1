// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/sealed_stream.hpp"

#include "bindings/openssl/aes_gcm.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Both ends of a connection, with the bytes between them in the hands of the test.
class Connection {
 public:
  Connection() {
    for (auto& pair : {&out_, &in_}) {
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair->data()) != 0) throw std::runtime_error("socketpair");
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    for (const int socket : {out_[0], out_[1], in_[0], in_[1]}) close(socket);
  }

  /// What goes over the connection for a record of `plain`.
  Bytes sealed(const Bytes& plain) {
    std::copy(plain.begin(), plain.end(), sender_.room().begin());
    EXPECT_EQ(sender_.seal(plain.size()), 0);
    EXPECT_FALSE(sender_.has_left());
    EXPECT_EQ(sender_.flush(out_[0]), 0);
    EXPECT_TRUE(sender_.has_left());
    Bytes wire(SealedStream::most_bytes * 2);
    const ssize_t count = recv(out_[1], wire.data(), wire.size(), MSG_DONTWAIT);
    wire.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return wire;
  }
  void bring(const Bytes& wire) {
    ASSERT_EQ(send(in_[0], wire.data(), wire.size(), 0), static_cast<ssize_t>(wire.size()));
  }
  int receive(Bytes& plain) {
    std::span<const std::byte> record;
    const int error = receiver_.receive(in_[1], record);
    plain.assign(record.begin(), record.end());
    return error;
  }
  void end() { shutdown(in_[0], SHUT_WR); }

 private:
  static constexpr SipHashCode there{1, 2};
  static constexpr SipHashCode back{3, 4};
  SealedStream sender_{{there, back}};
  SealedStream receiver_{{back, there}};
  std::array<int, 2> out_{};
  std::array<int, 2> in_{};
};

TEST(SealedStream, brings_what_was_sealed_and_shows_none_of_it) {
  Connection connection;
  const std::string text = "the gradient of the last layer";
  for (const std::size_t times : {std::size_t{1}, std::size_t{1}, SealedStream::most_bytes / text.size()}) {
    std::string plain;
    for (std::size_t i = 0; i < times; ++i) plain += text;
    const Bytes wire = connection.sealed(bytes_of(plain));
    const Bytes pattern = bytes_of("gradient");
    EXPECT_EQ(std::search(wire.begin(), wire.end(), pattern.begin(), pattern.end()), wire.end());
    connection.bring(wire);
    Bytes received;
    EXPECT_EQ(connection.receive(received), 0);
    EXPECT_EQ(received, bytes_of(plain));
  }
}

TEST(SealedStream, waits_for_the_rest_of_a_record) {
  Connection connection;
  const Bytes plain = bytes_of("in pieces");
  const Bytes wire = connection.sealed(plain);
  for (std::size_t i = 0; i < wire.size(); ++i) {
    Bytes received;
    EXPECT_EQ(connection.receive(received), 0);
    EXPECT_TRUE(received.empty());
    connection.bring({wire[i]});
  }
  Bytes received;
  EXPECT_EQ(connection.receive(received), 0);
  EXPECT_EQ(received, plain);
}

TEST(SealedStream, finds_every_changed_bit) {
  const std::size_t bytes = Connection().sealed(bytes_of("x")).size();
  for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
    Connection connection;
    Bytes wire = connection.sealed(bytes_of("x"));
    wire[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    connection.bring(wire);
    connection.end();  // a length that grew asks for more
    Bytes received;
    EXPECT_NE(connection.receive(received), 0) << bit;
    EXPECT_TRUE(received.empty());
  }
}

TEST(SealedStream, brings_nothing_after_a_changed_record) {
  Connection connection;
  Bytes first = connection.sealed(bytes_of("first"));
  const Bytes second = connection.sealed(bytes_of("second"));
  first.back() ^= std::byte{1};
  connection.bring(first);
  connection.bring(second);
  for (int i = 0; i < 3; ++i) {
    Bytes received;
    EXPECT_EQ(connection.receive(received), EBADMSG);
    EXPECT_TRUE(received.empty());
  }
}

TEST(SealedStream, finds_records_that_are_repeated_or_left_out) {
  for (const bool repeats : {true, false}) {
    Connection connection;
    const Bytes first = connection.sealed(bytes_of("first"));
    const Bytes second = connection.sealed(bytes_of("second"));
    Bytes received;
    if (repeats) {
      connection.bring(first);
      EXPECT_EQ(connection.receive(received), 0);
    }
    connection.bring(repeats ? first : second);
    EXPECT_EQ(connection.receive(received), EBADMSG);
  }
}

TEST(SealedStream, tells_that_the_other_side_has_ended) {
  Connection connection;
  connection.end();
  Bytes received;
  EXPECT_EQ(connection.receive(received), ECONNRESET);
}

/// Test case 2 of the specification of GCM (McGrew and Viega, 2005).
TEST(AesGcm, gives_the_code_of_the_specification) {
  const std::array<std::byte, AesGcm::key_bytes> key{};
  AesGcm sealer(AesGcm::Use::seal, key);
  std::array<std::byte, 16> data{};
  std::array<std::byte, AesGcm::tag_bytes> tag{};
  ASSERT_TRUE(sealer.seal(0, {}, data, tag));
  const auto hex = [](const auto& bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
      text += "0123456789abcdef"[static_cast<int>(byte) >> 4];
      text += "0123456789abcdef"[static_cast<int>(byte) & 15];
    }
    return text;
  };
  EXPECT_EQ(hex(data), "0388dace60b6a392f328c2b971b2fe78");
  EXPECT_EQ(hex(tag), "ab6e47d42cec13bdf53a67b21257bddf");
}

}  // namespace
}  // namespace lockstep::detail
