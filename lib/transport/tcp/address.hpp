// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a process can be reached over TCP, and the order in which to try its addresses.

#pragma once

#include "transport/tcp/siphash.hpp"

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

/// An address of an interface.
struct TcpAddress {
  std::array<std::uint8_t, 16> bytes{};  ///< in network order; an IPv4 address has 4 of them
  std::uint8_t family = 0;               ///< 4 or 6; 0: none
  std::uint8_t prefix = 0;               ///< length of the subnet's prefix, in bits

  /// "192.0.2.1" or "2001:db8::1".
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// Whether both are in the subnet of one of them.
  [[nodiscard]] bool shares_subnet(const TcpAddress& other) const noexcept;
  /// The address and `port` for connect(2) and bind(2). Returns its size.
  socklen_t to_socket_address(std::uint16_t port, sockaddr_storage& address) const noexcept;

  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

/// Identifies a process and says how to reach it. Sent to the other ranks as bytes, by MPI: who knows it may connect.
struct TcpIdentity {
  static constexpr std::size_t most_addresses = 6;

  std::uint64_t id = 0;  ///< random, and public; 0: the process cannot be reached
  SipHashKey secret{};   ///< random; never sent over TCP
  std::array<TcpAddress, most_addresses> addresses{};
  std::uint16_t port = 0;
  bool encrypts = false;  ///< what goes over its connections
};
static_assert(std::is_trivially_copyable_v<TcpIdentity>);

/// The address that `text` has, such as 192.0.2.1. Throws Error(invalid_argument), which names `option`, if it has
/// none.
[[nodiscard]] TcpAddress address_from(const std::string& text, std::string_view option);

/// The key of the connections between two processes.
[[nodiscard]] SipHashKey key_of(const TcpIdentity& one, const TcpIdentity& other) noexcept;

/// The addresses of the interfaces of this host that are up. `interface` is the name of the only one to use, or a
/// subnet such as 10.1.0.0/16, or empty: all but those of containers and virtual machines, whose addresses are the same
/// on many hosts, unless there are no others. Loopback addresses come last. Throws Error(invalid_argument), which names
/// `option`, if nothing is left.
[[nodiscard]] std::vector<TcpAddress> own_addresses(std::string_view interface, std::string_view option);

/// The addresses of `peer` in the order in which to try them from a host with the addresses `own`: first those whose
/// subnet is one of this host's; loopback addresses only if this host is the peer's.
[[nodiscard]] std::vector<TcpAddress> addresses_to_try(const TcpIdentity& peer, std::span<const TcpAddress> own);

}  // namespace lockstep::detail
