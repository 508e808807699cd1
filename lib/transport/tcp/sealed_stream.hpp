// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A connection whose bytes are encrypted and authenticated: records of AES-128-GCM, each with its length before it. A
// record that was changed, repeated, left out or moved to another place ends the connection.

#pragma once

#include "bindings/openssl/aes_gcm.hpp"
#include "transport/tcp/siphash.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::detail {

struct SealKeys {
  SipHashCode sends;
  SipHashCode receives;
};

/// After an error nothing is sent or received any more. Not thread-safe; never waits.
class SealedStream {
 public:
  /// Bytes of a record before it is sealed.
  static constexpr std::size_t most_bytes = std::size_t{32} << 10;

  /// Throws Error(unavailable) if there is no OpenSSL.
  explicit SealedStream(const SealKeys& keys);

  /// Whether all that was sealed has been given to the socket.
  [[nodiscard]] bool has_left() const noexcept { return sent_ == outgoing_end_; }
  /// Room for the plain bytes of the next record. Called if all has left.
  [[nodiscard]] std::span<std::byte> room() noexcept { return std::span(outgoing_->data).first(most_bytes); }
  /// Seals the first `bytes` bytes of the room. Returns 0 or the number of an error.
  [[nodiscard]] int seal(std::size_t bytes);
  /// Ends the stream: a part of what should have been sent is lost.
  void end() noexcept { static_cast<void>(fail(EPIPE)); }
  /// Gives the socket what it takes. Returns 0 or the number of the error that has ended the connection.
  [[nodiscard]] int flush(int socket);

  /// Receives up to the end of one record. `plain` has its bytes, which are valid until the next call; none if it has
  /// not come as a whole. Returns as `flush`; ECONNRESET if the other side has ended the connection, EBADMSG if a
  /// record is not as it was sent.
  [[nodiscard]] int receive(int socket, std::span<const std::byte>& plain);

 private:
  /// As it goes over the connection; the tag follows the data.
  struct Record {
    std::uint32_t bytes = 0;
    std::array<std::byte, most_bytes + AesGcm::tag_bytes> data;
  };
  static constexpr std::size_t head_bytes = sizeof(std::uint32_t);

  [[nodiscard]] int fail(int error) noexcept {
    error_ = error;
    return error;
  }

  AesGcm sealer_;
  AesGcm opener_;
  std::uint64_t next_sent_ = 0;
  std::uint64_t next_received_ = 0;
  std::unique_ptr<Record> outgoing_ = std::make_unique<Record>();
  std::size_t sent_ = 0;
  std::size_t outgoing_end_ = 0;
  std::unique_ptr<Record> incoming_ = std::make_unique<Record>();
  std::size_t come_ = 0;
  int error_ = 0;
};

}  // namespace lockstep::detail
