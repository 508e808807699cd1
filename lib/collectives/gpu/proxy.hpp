// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// If several ranks share a GPU, the rank that leads the GPU is the proxy of the other ranks in operations on GPUs. The
// other ranks are the clients of the proxy.
//
// 1. A client copies its inputs to pinned memory and sends them to the proxy. 2. The proxy copies these inputs to the
// GPU, and allocates GPU memory for the client's results. The operation treats these inputs and results like the inputs
// and outputs of the proxy's own replicas. 3. The proxy copies the results to pinned memory and sends them to the
// client. 4. The client copies the results to its outputs. So each input and each result crosses the link between host
// and GPU twice, and is sent once between the ranks. No thread blocks in CUDA. After construction, ProxyClient,
// ProxyServer and Proxies are used only under the engine's lock.

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
  int replica = -1;  ///< owner of the tensor; -1: the root's input, or a result that all replicas of the client share
  std::size_t begin = 0;  ///< offset in the message
  std::size_t bytes = 0;
};

/// Layout of a message between a client and its proxy. An operation has two such messages: one with the client's
/// inputs, and one with the client's results. Both ranks compute the layouts of both messages. In a message, each
/// tensor is aligned to 64 bytes.
struct ProxyMessage {
  std::vector<ProxyTensor> tensors;  ///< by item, then by replica
  std::size_t bytes = 0;
};

/// Layout of the message with the client's inputs. The message begins with one byte per item, which tells whether the
/// client wants the result that its replicas share.
[[nodiscard]] ProxyMessage message_to_server(const Descriptor& descriptor, const GpuGroup& group,
                                             const ProxiedRank& client, std::span<const HostItem> items);
/// Layout of the message with the client's results. A result that the client's replicas share is in the message only if
/// the item's byte in `wanted` is not 0.
[[nodiscard]] ProxyMessage message_to_client(const Descriptor& descriptor, const GpuGroup& group,
                                             const ProxiedRank& client, std::span<const HostItem> items,
                                             std::span<const std::byte> wanted);

/// Pinned memory that messages and copies of one operation use. The destructor frees the memory, or leaks it if a
/// message or a copy may still access the memory.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  ~PinnedBlock();

  /// Called once. Throws Error(unavailable) if the memory cannot be allocated.
  void allocate(std::size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  /// Between `use` and `release`, messages and copies may access the memory.
  void use() noexcept { is_in_use_ = true; }
  void release() noexcept { is_in_use_ = false; }

 private:
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  bool is_in_use_ = false;
};

/// Allocates memory on the GPU of `stream`. The memory lives as long as the operation.
using AllocateScratch = std::function<void*(std::size_t stream, std::size_t bytes)>;

/// This rank as the client of one proxy in one operation. `group` must outlive this object.
class ProxyClient {
 public:
  /// Throws Error(unavailable) if memory is exhausted or CUDA fails.
  ProxyClient(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
              std::span<const HostItem> items);

  /// Starts to copy the inputs to the host, on streams that already wait for the replicas' streams.
  void start(Transport& transport);
  /// Makes progress without waiting. Sends only if `may_send` is true, which means that all earlier ProxyClients of
  /// this rank have sent: messages between two ranks are matched in the order in which they are sent.
  void advance(Transport& transport, bool may_send);
  [[nodiscard]] bool has_sent() const noexcept { return has_sent_; }
  /// Whether all messages are complete and the copies of the results are enqueued on the stream.
  [[nodiscard]] bool is_over() const noexcept { return has_sent_ && !sending_ && !receiving_; }
  /// Called after the work on the streams has finished. If no message is pending, the pinned memory can then be freed.
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

/// This rank as the proxy of one client in one operation. `group` must outlive this object.
class ProxyServer {
 public:
  /// Throws Error(unavailable) if memory is exhausted or CUDA fails.
  ProxyServer(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
              std::span<const HostItem> items);

  void start(Transport& transport);
  /// Whether the client's message has arrived.
  [[nodiscard]] bool has_inputs(Transport& transport);
  /// Starts to copy the client's inputs to the GPU, allocates GPU memory for the results that the client wants, and
  /// appends the inputs and the results to `items`.
  void add_inputs(std::vector<HostItem>& items, const AllocateScratch& scratch);
  /// Starts to copy the results to the host, after the work that is now on the stream.
  void fetch_results();
  /// Called after fetch_results. Makes progress like ProxyClient::advance.
  void advance(Transport& transport, bool may_send);
  [[nodiscard]] bool has_sent() const noexcept { return has_sent_; }
  /// Whether all messages are complete.
  [[nodiscard]] bool is_over() const noexcept { return has_sent_ && !sending_; }
  /// Called after the work on the stream has finished. If no message is pending, the pinned memory can then be freed.
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

/// All ProxyClients and ProxyServers of this rank in one operation. A rank may be a client on one GPU and a proxy on
/// another GPU. Empty if this rank shares no GPU. `group` must outlive this object.
class Proxies {
 public:
  /// Throws Error(unavailable) if memory is exhausted or CUDA fails.
  Proxies(const Descriptor& descriptor, const GpuGroup& group, std::span<const HostItem> items);

  void start(Transport& transport);
  /// Makes progress as a client. Returns whether all messages are complete and the remaining work is on the streams.
  [[nodiscard]] bool advance_clients(Transport& transport);
  /// Makes progress as a proxy. Returns whether `items` contain the inputs of all clients, at GpuGroup::place_of.
  [[nodiscard]] bool receive_inputs(Transport& transport, std::vector<HostItem>& items, const AllocateScratch& scratch);
  /// Makes progress as a proxy. Called after the work that computes the results is enqueued on the streams. Returns
  /// whether the results of all clients have been sent.
  [[nodiscard]] bool send_results(Transport& transport);
  /// Called after the work on the streams has finished. Pinned memory without a pending message can then be freed.
  void release() noexcept;

 private:
  std::deque<ProxyClient> clients_;
  std::deque<ProxyServer> servers_;
  bool has_inputs_ = false;
  bool is_fetching_ = false;
};

}  // namespace lockstep::detail
