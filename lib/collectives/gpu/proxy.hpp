// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that share a GPU: in operations on GPUs the rank that leads the GPU is the proxy of the others, its clients.
//
// 1. A client copies its inputs to pinned memory and sends them to the proxy. 2. The proxy copies these inputs to its
// GPU and allocates memory for the client's results there; the operation treats both like inputs and outputs of the
// proxy's own replicas. 3. The proxy copies the results to pinned memory and sends them to the client. 4. The client
// copies them to its outputs. So the client's inputs and its results each cross the GPU's link twice and go once
// between the ranks. No thread waits in CUDA.

#pragma once

#include "collectives/call/descriptor.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/gpu/group.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

struct ProxyTensor {
  std::size_t item = 0;
  int replica = -1;  ///< its owner; -1: the root's input, or a result that all replicas of the client share
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// One of the two messages of an operation between a proxy and its client: the client's inputs one way, its results the
/// other. Both ranks compute the layout of both messages. In a message each tensor is aligned to 64 bytes.
struct ProxyMessage {
  std::vector<ProxyTensor> tensors;  ///< by item, then by replica
  std::size_t bytes = 0;
};

/// The client's inputs, after one byte per item that says whether the client wants the result that its replicas share.
[[nodiscard]] ProxyMessage message_to_server(const Descriptor& descriptor, const GpuGroup& group,
                                             const ProxiedRank& client, std::span<const HostItem> items);
/// The client's results; a result that its replicas share only if its byte in `wanted` is set.
[[nodiscard]] ProxyMessage message_to_client(const Descriptor& descriptor, const GpuGroup& group,
                                             const ProxiedRank& client, std::span<const HostItem> items,
                                             std::span<const std::byte> wanted);

/// Pinned memory that messages and copies of one operation use. Its destructor frees it, or leaks it if a message or a
/// copy may still touch it.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  ~PinnedBlock();

  /// Called once. Throws Error(unavailable) if the memory cannot be allocated.
  void allocate(std::size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  /// Messages and copies may touch the memory from `use` to `release`.
  void use() noexcept { is_in_use_ = true; }
  void release() noexcept { is_in_use_ = false; }

 private:
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  bool is_in_use_ = false;
};

/// Allocates memory on the GPU of `stream`. The memory lives as long as the operation.
using AllocateScratch = std::function<void*(std::size_t stream, std::size_t bytes)>;

/// This rank as the client of one proxy in one operation. Driven under the engine's lock; `group` outlives it.
class ProxyClient {
 public:
  /// Throws Error(unavailable) when memory or CUDA fails.
  ProxyClient(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
              std::span<const HostItem> items);

  /// Starts to copy the inputs to the host, on streams that wait for those of the replicas.
  void start(Transport& transport);
  /// Makes progress without waiting. `may_send` tells whether the clients before this one have sent; until then this
  /// one does not send, because messages between two ranks are matched in the order in which they are sent.
  void advance(Transport& transport, bool may_send);
  [[nodiscard]] bool has_sent() const noexcept { return has_sent_; }
  /// Whether all messages are complete and the copies of the results are on the stream.
  [[nodiscard]] bool is_over() const noexcept { return has_sent_ && !sending_ && !receiving_; }
  /// Called when the work on the streams has finished.
  void release() noexcept;

 private:
  struct Copy {
    void* target;
    const void* source;
    std::size_t bytes;
    std::size_t stream;
  };
  void list_inputs(const ProxyMessage& message, std::span<const HostItem> items);
  void list_results(const ProxyMessage& message, std::span<const HostItem> items);
  [[nodiscard]] std::span<std::byte> inputs() const { return block_.bytes().first(sent_bytes_); }
  [[nodiscard]] std::span<std::byte> results() const { return block_.bytes().subspan(sent_bytes_); }

  const GpuGroup& group_;
  const int server_rank_;
  const std::size_t stream_;
  std::size_t sent_bytes_ = 0;
  PinnedBlock block_;  // the message to send, then the message to receive
  std::vector<Copy> fetches_;
  std::vector<Copy> deliveries_;
  cuda::OwnedEvent fetched_;
  bool has_sent_ = false;
  std::optional<Transfer> sending_;
  std::optional<Transfer> receiving_;
};

/// This rank as the proxy of one client in one operation. Driven under the engine's lock; `group` outlives it.
class ProxyServer {
 public:
  /// Throws Error(unavailable) when memory or CUDA fails.
  ProxyServer(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
              std::span<const HostItem> items);

  void start(Transport& transport);
  /// Whether the client's message has arrived.
  [[nodiscard]] bool has_inputs(Transport& transport);
  /// Copies the client's inputs to the GPU and allocates the results that it wants, and appends both to `items`.
  void add_inputs(std::vector<HostItem>& items, const AllocateScratch& scratch);
  /// Starts to copy the results to the host, after the work that is on the stream.
  void fetch_results();
  /// Called after fetch_results. Makes progress as ProxyClient::advance does.
  void advance(Transport& transport, bool may_send);
  [[nodiscard]] bool has_sent() const noexcept { return has_sent_; }
  /// Whether all messages are complete.
  [[nodiscard]] bool is_over() const noexcept { return has_sent_ && !sending_; }
  /// Called when the work on the stream has finished.
  void release() noexcept;

 private:
  [[nodiscard]] std::span<std::byte> inputs() const { return block_.bytes().first(inputs_.bytes); }
  [[nodiscard]] std::span<std::byte> results() const { return block_.bytes().subspan(inputs_.bytes, results_.bytes); }
  [[nodiscard]] const GpuStream& stream() const { return *group_.streams()[stream_]; }

  const Descriptor descriptor_;
  const GpuGroup& group_;
  const ProxiedRank& client_;
  const std::size_t stream_;
  ProxyMessage inputs_;
  ProxyMessage results_;
  PinnedBlock block_;  // the message to receive, then the message to send
  const void* results_on_gpu_ = nullptr;
  cuda::OwnedEvent fetched_;
  bool has_sent_ = false;
  std::optional<Transfer> receiving_;
  std::optional<Transfer> sending_;
};

/// This rank's clients and proxies in one operation; a rank may have both, on different GPUs. Empty if no ranks share a
/// GPU. Driven under the engine's lock; `group` outlives it.
class Proxies {
 public:
  /// Throws Error(unavailable) when memory or CUDA fails.
  Proxies(const Descriptor& descriptor, const GpuGroup& group, std::span<const HostItem> items);

  void start(Transport& transport);
  /// As a client: makes progress. Returns whether the messages are complete and the rest of the work is on the streams.
  [[nodiscard]] bool advance_clients(Transport& transport);
  /// As a proxy: makes progress. Returns whether the inputs of all clients are among `items`, at GpuGroup::place_of.
  [[nodiscard]] bool receive_inputs(Transport& transport, std::vector<HostItem>& items, const AllocateScratch& scratch);
  /// As a proxy, when the results are on the streams: makes progress. Returns whether the results of all clients have
  /// been sent.
  [[nodiscard]] bool send_results(Transport& transport);
  /// Called when the work on the streams has finished: frees the memory that no message may touch any more.
  void release() noexcept;

 private:
  std::deque<ProxyClient> clients_;
  std::deque<ProxyServer> servers_;
  bool has_inputs_ = false;
  bool is_fetching_ = false;
};

}  // namespace lockstep::detail
