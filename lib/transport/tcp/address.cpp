// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/address.hpp"

#include "base/check.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

namespace lockstep::detail {
namespace {

std::size_t byte_count(const TcpAddress& address) noexcept { return address.family == 4 ? 4 : 16; }

bool have_equal_prefix(const TcpAddress& one, const TcpAddress& other, unsigned bits) noexcept {
  if (one.family != other.family) return false;
  for (std::size_t i = 0; i < byte_count(one) && bits > 0; ++i) {
    const unsigned of_byte = std::min(bits, 8U);
    if ((one.bytes[i] ^ other.bytes[i]) >> (8 - of_byte) != 0) return false;
    bits -= of_byte;
  }
  return true;
}

/// An address without the length of a prefix; none if `text` is none.
std::optional<TcpAddress> parse(const std::string& text) {
  TcpAddress result;
  if (inet_pton(AF_INET, text.c_str(), result.bytes.data()) == 1) {
    result.family = 4;
  } else if (inet_pton(AF_INET6, text.c_str(), result.bytes.data()) == 1) {
    result.family = 6;
  } else {
    return std::nullopt;
  }
  return result;
}

std::optional<TcpAddress> address_of(const sockaddr* address, const sockaddr* mask) {
  TcpAddress result;
  const auto count_bits = [&](const void* bytes) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < byte_count(result); ++i)
      bits += static_cast<unsigned>(std::popcount(static_cast<const std::uint8_t*>(bytes)[i]));
    return static_cast<std::uint8_t>(bits);
  };
  if (address->sa_family == AF_INET) {
    result.family = 4;
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    if (mask != nullptr) result.prefix = count_bits(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
    return result;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto& six = *reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) return std::nullopt;  // needs the number of an interface, too
  result.family = 6;
  std::memcpy(result.bytes.data(), &six.sin6_addr, 16);
  if (mask != nullptr) result.prefix = count_bits(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  return result;
}

/// Whether the interface is one of a container or virtual machine system, whose addresses are the same on every host.
bool is_virtual(std::string_view name) {
  constexpr std::array<std::string_view, 9> prefixes{"docker", "virbr",  "br-", "cni", "flannel",
                                                     "vmnet",  "podman", "lxc", "cali"};
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view each) { return name.starts_with(each); });
}

/// A subnet such as 10.1.0.0/16; none if `text` is none.
std::optional<TcpAddress> subnet_from(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  auto result = parse(std::string(text.substr(0, slash)));
  if (!result) return std::nullopt;
  const std::string_view bits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), result->prefix);
  const bool is_right = error == std::errc() && end == bits.data() + bits.size();
  return is_right && result->prefix <= 8 * byte_count(*result) ? result : std::nullopt;
}

}  // namespace

std::string TcpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family == 0 || inet_ntop(family == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(),
                               static_cast<socklen_t>(text.size())) == nullptr)
    return "no address";
  return text.data();
}

bool TcpAddress::is_loopback() const noexcept {
  if (family == 4) return bytes[0] == 127;
  return family == 6 && IN6_IS_ADDR_LOOPBACK(reinterpret_cast<const in6_addr*>(bytes.data()));
}

bool TcpAddress::shares_subnet(const TcpAddress& other) const noexcept {
  return have_equal_prefix(*this, other, std::min<unsigned>(prefix, other.prefix)) && prefix != 0;
}

socklen_t TcpAddress::to_socket_address(std::uint16_t port, sockaddr_storage& address) const noexcept {
  address = {};
  if (family == 4) {
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, bytes.data(), 4);
    return sizeof(four);
  }
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&six.sin6_addr, bytes.data(), 16);
  return sizeof(six);
}

TcpAddress address_from(const std::string& text, std::string_view option) {
  const auto address = parse(text);
  if (!address) throw_error(Code::invalid_argument, "{}=\"{}\": expected an address such as 192.0.2.1", option, text);
  return *address;
}

SipHashKey key_of(const TcpIdentity& one, const TcpIdentity& other) noexcept {
  return {one.secret[0] ^ other.secret[0], one.secret[1] ^ other.secret[1]};
}

std::vector<TcpAddress> own_addresses(std::string_view interface, std::string_view option) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw_error(Code::unavailable, "getifaddrs: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  const auto subnet = subnet_from(interface);
  std::vector<TcpAddress> usual;
  std::vector<TcpAddress> others;
  std::vector<TcpAddress> loopback;
  for (const ifaddrs* each = all.get(); each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const auto address = address_of(each->ifa_addr, each->ifa_netmask);
    if (!address) continue;
    const bool is_wanted = subnet ? have_equal_prefix(*address, *subnet, subnet->prefix)
                                  : interface.empty() || interface == each->ifa_name;
    if (!is_wanted) continue;
    const bool is_last = interface.empty() && is_virtual(each->ifa_name);
    (address->is_loopback() ? loopback : is_last ? others : usual).push_back(*address);
  }
  if (usual.empty()) usual = std::move(others);
  usual.insert(usual.end(), loopback.begin(), loopback.end());
  if (usual.empty()) {
    throw_error(Code::invalid_argument, "{}=\"{}\": no interface of this host that is up has this name or subnet",
                option, interface);
  }
  return usual;
}

std::vector<TcpAddress> addresses_to_try(const TcpIdentity& peer, std::span<const TcpAddress> own) {
  const auto is_own = [&](const TcpAddress& address) {
    return std::find(own.begin(), own.end(), address) != own.end();
  };
  const auto is_near = [&](const TcpAddress& address) {
    return std::any_of(own.begin(), own.end(),
                       [&](const TcpAddress& each) { return !each.is_loopback() && each.shares_subnet(address); });
  };
  const bool is_this_host = std::any_of(peer.addresses.begin(), peer.addresses.end(), [&](const TcpAddress& address) {
    return address.family != 0 && !address.is_loopback() && is_own(address);
  });
  const bool has_only_loopback = std::all_of(peer.addresses.begin(), peer.addresses.end(), [](const TcpAddress& each) {
    return each.family == 0 || each.is_loopback();
  });
  std::vector<TcpAddress> near;
  std::vector<TcpAddress> far;
  std::vector<TcpAddress> here;
  for (const TcpAddress& address : peer.addresses) {
    if (address.family == 0) continue;
    if (address.is_loopback()) {
      if (is_this_host || has_only_loopback) here.push_back(address);
    } else {
      (is_near(address) ? near : far).push_back(address);
    }
  }
  here.insert(here.end(), near.begin(), near.end());
  here.insert(here.end(), far.begin(), far.end());
  return here;
}

}  // namespace lockstep::detail
