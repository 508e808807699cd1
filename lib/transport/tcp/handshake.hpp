// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What two processes exchange on a new connection before anything else is read: greetings with challenges, and proofs
// that both know the key of the connection. It costs a stranger nothing to connect, and gets it nothing: 48 bytes of
// its greeting are all that is kept.

#pragma once

#include "transport/tcp/address.hpp"
#include "transport/tcp/sealed_stream.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// Both greetings are of this kind.
struct TcpGreeting {
  static constexpr std::uint64_t right_magic = 0x31706574736b636cU;

  std::uint64_t magic = right_magic;
  std::uint64_t from = 0;  ///< TcpIdentity::id
  std::uint64_t to = 0;
  std::uint64_t line = 0;  ///< which of the connections of the two processes
  std::array<std::uint64_t, 2> challenge{};
};
static_assert(sizeof(TcpGreeting) == 48);

/// One side of a handshake over a non-blocking socket. Not thread-safe; never waits.
class TcpHandshake {
 public:
  enum class Role : std::uint8_t { dials, accepts };
  enum class Outcome : std::uint8_t {
    waits,    ///< for the other side
    greeted,  ///< the other side has greeted; the caller gives its key, or closes the socket
    done,
    failed,  ///< the socket has an error or has ended, or the other side does not know the key
  };

  /// Of the side that dials, which greets first.
  TcpHandshake(std::uint64_t from, std::uint64_t to, std::uint64_t line, const SipHashKey& key);
  /// Of the side that accepts.
  explicit TcpHandshake(std::uint64_t own);

  /// Reads and writes what is possible. After `greeted`, it has to be called again after `use`.
  [[nodiscard]] Outcome advance(int socket);
  /// The greeting of the side that dials, after `greeted`.
  [[nodiscard]] const TcpGreeting& greeting() const noexcept { return theirs_; }
  void use(const SipHashKey& key) noexcept;
  /// Keys for what follows, after `done`: new ones for each connection.
  [[nodiscard]] SealKeys keys() const noexcept;

 private:
  enum class Step : std::uint8_t { greet, be_greeted, await_key, prove, be_shown, end };

  [[nodiscard]] SipHashCode code_of(std::uint64_t purpose) const noexcept;
  [[nodiscard]] SipHashCode proof_of(Role prover) const noexcept { return code_of(static_cast<std::uint64_t>(prover)); }
  [[nodiscard]] Outcome write(int socket, const void* data, std::size_t bytes, Step next);
  [[nodiscard]] Outcome read(int socket, void* data, std::size_t bytes, Step next);
  [[nodiscard]] bool is_greeting_right() const noexcept;

  Role role_;
  Step step_;
  SipHashKey key_{};
  TcpGreeting own_;
  TcpGreeting theirs_;
  SipHashCode proof_{};
  std::size_t moved_ = 0;  // bytes of the current step
};

}  // namespace lockstep::detail
