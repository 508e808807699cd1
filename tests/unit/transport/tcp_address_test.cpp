// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/address.hpp"

#include <lockstep/base/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

TcpAddress address(const std::string& text, int prefix) {
  TcpAddress result = address_from(text, "test");
  result.prefix = static_cast<std::uint8_t>(prefix);
  return result;
}

TEST(SipHash, gives_the_published_codes) {
  // vectors of the authors' implementation: the key 00 01 .. 0f, the texts of 0 and 1 bytes, and of 8 bytes 00 .. 07
  const SipHashKey key{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
  std::array<std::byte, 8> text{};
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(i);
  EXPECT_EQ(siphash(key, {}), (SipHashCode{0xe6a825ba047f81a3U, 0x930255c71472f66dU}));
  EXPECT_EQ(siphash(key, std::span(text).first(1)), (SipHashCode{0x44af996bd8c187daU, 0x45fc229b11597634U}));
  EXPECT_NE(siphash(key, text), siphash(key, std::span(text).first(7)));
  EXPECT_NE(siphash(key, text), siphash({key[0] ^ 1, key[1]}, text));
}

TEST(TcpAddress, is_read_and_written) {
  EXPECT_EQ(address("192.0.2.7", 24).text(), "192.0.2.7");
  EXPECT_EQ(address("2001:db8::7", 64).text(), "2001:db8::7");
  EXPECT_EQ(TcpAddress().text(), "no address");
  EXPECT_TRUE(address("127.0.0.1", 8).is_loopback());
  EXPECT_TRUE(address("::1", 128).is_loopback());
  EXPECT_FALSE(address("10.0.0.1", 8).is_loopback());
  try {
    static_cast<void>(address_from("node7", "LOCKSTEP_ADDRESS"));
    ADD_FAILURE() << "a name was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "LOCKSTEP_ADDRESS=\"node7\": expected an address such as 192.0.2.1");
  }
}

TEST(TcpAddress, shares_a_subnet_by_its_prefix) {
  EXPECT_TRUE(address("10.1.2.3", 16).shares_subnet(address("10.1.9.9", 16)));
  EXPECT_FALSE(address("10.1.2.3", 16).shares_subnet(address("10.2.2.3", 16)));
  EXPECT_TRUE(address("10.1.2.3", 20).shares_subnet(address("10.1.15.3", 20)));
  EXPECT_FALSE(address("10.1.2.3", 20).shares_subnet(address("10.1.16.3", 20)));
  EXPECT_FALSE(address("10.1.2.3", 16).shares_subnet(address("2001:db8::7", 16)));
}

std::vector<std::string> order(const std::vector<TcpAddress>& of_peer, const std::vector<TcpAddress>& own) {
  TcpIdentity peer;
  for (std::size_t i = 0; i < of_peer.size(); ++i) peer.addresses[i] = of_peer[i];
  std::vector<std::string> texts;
  for (const TcpAddress& each : addresses_to_try(peer, own)) texts.push_back(each.text());
  return texts;
}

TEST(TcpAddress, is_tried_first_in_a_shared_subnet) {
  const auto loopback = address("127.0.0.1", 8);
  EXPECT_EQ(order({address("192.168.1.2", 24), address("10.1.0.2", 16), loopback},
                  {address("10.1.0.1", 16), address("172.16.0.1", 16), loopback}),
            (std::vector<std::string>{"10.1.0.2", "192.168.1.2"}));
  // on one host
  EXPECT_EQ(order({address("10.1.0.2", 16), loopback}, {address("10.1.0.2", 16), loopback}),
            (std::vector<std::string>{"127.0.0.1", "10.1.0.2"}));
  EXPECT_EQ(order({loopback}, {loopback}), std::vector<std::string>{"127.0.0.1"});
}

TEST(TcpAddress, of_this_host_is_chosen_by_interface_or_subnet) {
  for (const char* const choice : {"lo", "127.0.0.0/8"}) {
    const auto found = own_addresses(choice, "LOCKSTEP_INTERFACE");
    ASSERT_FALSE(found.empty()) << choice;
    EXPECT_TRUE(found.front().is_loopback());
  }
  try {
    static_cast<void>(own_addresses("nothing0", "LOCKSTEP_INTERFACE"));
    ADD_FAILURE() << "an interface was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.text(),
              "LOCKSTEP_INTERFACE=\"nothing0\": no interface of this host that is up has this name or subnet");
  }
}

}  // namespace
}  // namespace lockstep::test
