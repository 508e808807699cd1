// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Connections of this process to other processes over TCP, and the messages and transfers that go over them. All groups
// of a process share one network.
//
// Two processes have two connections, made when they are needed first: one for small frames, by whose end each learns
// of the end of the other, and one for bulk data. A transfer of at most `TcpTransfers::eager_bytes` goes with its
// header; a larger one is announced, and its data follows in parts when the receiver waits for it. Transfers from one
// process to another match in order if their group and tag are equal. The data of a transfer by number is sent at once:
// its receiver waits for it already.
//
// A process that ends, or a connection that does, fails the transfers with that process. That is a suspicion: the other
// process may live. No connection is made again.

#pragma once

#include "base/mutex.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/transfers.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lockstep::detail {

struct TcpOptions {
  std::string interface;         ///< see own_addresses
  std::uint16_t first_port = 0;  ///< range of ports to listen on; 0: any port
  std::uint16_t last_port = 0;
  std::string
      announced_address;  ///< to which the others connect, if it is none of this host's; empty: those of the host
  bool encrypts = false;  ///< all that goes over the connections, with OpenSSL; the same for all processes
  /// After so much time without any sign of the other host, the kernel ends a connection.
  std::chrono::milliseconds silence{600'000};
};

/// Thread-safe. No function waits, but the destructor and `sleep`. Connections are made, and frames sent, inside of its
/// functions; a thread does so if that has not been enough, so that what was posted leaves also if this process calls
/// no function any more.
class TcpNetwork {
 public:
  /// Connections whose other side has not proved yet that it belongs to the job; if there are more, the oldest is
  /// closed.
  static constexpr std::size_t most_strangers = 64;

  /// Listens. Throws Error(unavailable) if that is not possible, or nothing can be encrypted, and
  /// Error(invalid_argument) for wrong options.
  explicit TcpNetwork(TcpOptions options = {});
  TcpNetwork(const TcpNetwork&) = delete;
  TcpNetwork& operator=(const TcpNetwork&) = delete;
  /// Ends all connections. What has been sent arrives, and so does what other processes have sent to this one: waits up
  /// to a second for their end, so that no message is lost.
  ~TcpNetwork();

  /// The network of this process, which exists as long as the result of a call. The options are those of the first
  /// call; throws Error(failed_precondition) if `encrypts` differs. A child that the process makes by `fork` keeps none
  /// of its connections open.
  [[nodiscard]] static std::shared_ptr<TcpNetwork> of_this_process(const TcpOptions& options);
  /// A random number that is not 0.
  [[nodiscard]] static std::uint64_t new_token();

  [[nodiscard]] const TcpIdentity& identity() const noexcept;
  /// The number of the process `identity` among the peers of this one. The same for each call with it.
  [[nodiscard]] int learn(const TcpIdentity& identity);

  /// Sends a copy of `message` to `group` on `peer`.
  void post(int peer, std::uint64_t group, std::span<const std::byte> message);
  /// Whether all that was posted to `peer` has left this process.
  [[nodiscard]] bool has_left(int peer);
  using Message = TcpMessage;
  /// The next message to `group`; none if none has come.
  [[nodiscard]] std::optional<Message> poll(std::uint64_t group);
  /// Forgets all that has come for `group`, and all that will come.
  void close_group(std::uint64_t group);

  /// Starts to send `data`, which must stay unchanged until the transfer is not pending any more.
  void send(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t tag, std::span<const std::byte> data);
  /// Starts to receive exactly `data.size()` bytes. A transfer of another size fails on both sides.
  void receive(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t tag, std::span<std::byte> data);
  /// As `send` and `receive`, for transfers that match by `number`, of which there is one for each group and pair of
  /// processes. If the receive has not been started, or was cancelled, the data is dropped.
  void send_by_number(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t number,
                      std::span<const std::byte> data);
  void receive_by_number(TcpTransfer& transfer, int peer, std::uint64_t group, std::uint64_t number,
                         std::span<std::byte> data);
  [[nodiscard]] TcpTransfer::State state(const TcpTransfer& transfer);
  /// Bytes that have left this process, or have come.
  [[nodiscard]] std::size_t moved_bytes(const TcpTransfer& transfer);
  /// Ends a transfer: its memory is free afterwards.
  void cancel(TcpTransfer& transfer) noexcept;
  /// Drops the transfers to this rank that have come for tags of `group` below `tag`, and those that will come.
  void drop_before(std::uint64_t group, std::uint64_t tag);

  /// Receives and sends what is possible.
  void progress();
  /// Waits until there is something for `progress` to do, and for `limit` at most.
  void sleep(std::chrono::microseconds limit) const;
  struct Loss {
    std::string why;
    bool has_left;  ///< the other process has ended its connections in an orderly way
  };
  /// Why the connections to `peer` have ended; none if they have not, or a message to `group` is left that came before.
  [[nodiscard]] std::optional<Loss> loss_of(int peer, std::uint64_t group);
  /// The number of peers whose connections have ended; grows.
  [[nodiscard]] std::size_t lost_peers() const noexcept;

 private:
  class Implementation;
  class OfProcess;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep::detail
