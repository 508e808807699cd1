// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/handshake.hpp"

#include "base/random_word.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace lockstep::detail {
namespace {

std::array<std::uint64_t, 2> new_challenge() { return {random_word(), random_word()}; }

bool has_to_wait(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

TcpHandshake::TcpHandshake(std::uint64_t from, std::uint64_t to, std::uint64_t line, const SipHashKey& key)
    : role_(Role::dials), step_(Step::greet), key_(key), own_{.from = from, .to = to, .line = line} {
  own_.challenge = new_challenge();
}

TcpHandshake::TcpHandshake(std::uint64_t own) : role_(Role::accepts), step_(Step::be_greeted), own_{.from = own} {}

void TcpHandshake::use(const SipHashKey& key) noexcept {
  key_ = key;
  if (step_ == Step::await_key) step_ = Step::greet;
}

SealKeys TcpHandshake::keys() const noexcept {
  constexpr std::uint64_t first = 2;  // proofs have 0 and 1
  const auto key_of_sender = [this](Role role) { return code_of(first + static_cast<std::uint64_t>(role)); };
  return {key_of_sender(role_), key_of_sender(role_ == Role::dials ? Role::accepts : Role::dials)};
}

/// Over both greetings, that of the side that dials first, and the purpose, so that a proof that was seen proves
/// nothing elsewhere.
SipHashCode TcpHandshake::code_of(std::uint64_t purpose) const noexcept {
  struct {
    TcpGreeting dials;
    TcpGreeting accepts;
    std::uint64_t purpose;
  } const text{role_ == Role::dials ? own_ : theirs_, role_ == Role::dials ? theirs_ : own_, purpose};
  return siphash(key_, std::as_bytes(std::span(&text, 1)));
}

TcpHandshake::Outcome TcpHandshake::write(int socket, const void* data, std::size_t bytes, Step next) {
  while (moved_ < bytes) {
    const ssize_t count =
        send(socket, static_cast<const std::byte*>(data) + moved_, bytes - moved_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return has_to_wait(errno) ? Outcome::waits : Outcome::failed;
    moved_ += static_cast<std::size_t>(count);
  }
  moved_ = 0;
  step_ = next;
  return Outcome::done;
}

TcpHandshake::Outcome TcpHandshake::read(int socket, void* data, std::size_t bytes, Step next) {
  while (moved_ < bytes) {
    const ssize_t count = recv(socket, static_cast<std::byte*>(data) + moved_, bytes - moved_, MSG_DONTWAIT);
    if (count < 0) return has_to_wait(errno) ? Outcome::waits : Outcome::failed;
    if (count == 0) return Outcome::failed;
    moved_ += static_cast<std::size_t>(count);
  }
  moved_ = 0;
  step_ = next;
  return Outcome::done;
}

bool TcpHandshake::is_greeting_right() const noexcept {
  if (theirs_.magic != TcpGreeting::right_magic || theirs_.to != own_.from) return false;
  return role_ == Role::accepts || (theirs_.from == own_.to && theirs_.line == own_.line);
}

TcpHandshake::Outcome TcpHandshake::advance(int socket) {
  for (;;) {
    Outcome outcome = Outcome::done;
    switch (step_) {
      case Step::greet:
        if (role_ == Role::accepts && moved_ == 0) {
          own_.to = theirs_.from;
          own_.line = theirs_.line;
          own_.challenge = new_challenge();
        }
        outcome = write(socket, &own_, sizeof(own_), role_ == Role::dials ? Step::be_greeted : Step::be_shown);
        break;
      case Step::be_greeted:
        outcome = read(socket, &theirs_, sizeof(theirs_), role_ == Role::dials ? Step::prove : Step::await_key);
        if (outcome == Outcome::done && !is_greeting_right()) return Outcome::failed;
        break;
      case Step::await_key: return Outcome::greeted;
      case Step::prove:
        proof_ = proof_of(role_);
        outcome = write(socket, &proof_, sizeof(proof_), role_ == Role::dials ? Step::be_shown : Step::end);
        break;
      case Step::be_shown: {
        outcome = read(socket, &proof_, sizeof(proof_), role_ == Role::dials ? Step::end : Step::prove);
        const Role prover = role_ == Role::dials ? Role::accepts : Role::dials;
        if (outcome == Outcome::done && proof_ != proof_of(prover)) return Outcome::failed;
        break;
      }
      case Step::end: return Outcome::done;
    }
    if (outcome != Outcome::done) return outcome;
  }
}

}  // namespace lockstep::detail
