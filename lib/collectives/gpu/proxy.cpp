// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/proxy.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"

#include <lockstep/device/gpu.hpp>

#include <algorithm>
#include <cstdint>
#include <new>

namespace lockstep::detail {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

void add(ProxyMessage& message, std::size_t item, int replica, std::size_t bytes) {
  message.tensors.push_back({item, replica, message.bytes, bytes});
  message.bytes += aligned(bytes);
}

/// Number of elements of all parts.
std::int64_t count_of(const HostItem& item, const PartBegins& begins) { return begins.back() * item.row_elements; }

std::size_t input_bytes(const Traits& kind, const GpuGroup& group, const HostItem& item, int replica) {
  std::int64_t count = item.count();
  if (kind.gathers()) {
    count = item.part_begin(replica + 1) - item.part_begin(replica);
  } else if (kind.scatters()) {
    count = count_of(item, item.input_parts.front());
  } else if (kind.rows == Rows::own) {
    count = count_of(item, item.input_parts[group.place_of(replica)]);
  }
  return static_cast<std::size_t>(count) * size_of(item.dtype);
}

std::size_t result_bytes(const Descriptor& descriptor, const GpuGroup& group, const HostItem& item, int replica) {
  const Traits& kind = descriptor.traits();
  const int replicas = group.layout().replicas();
  std::int64_t count = item.count();
  if (kind.gathers()) {
    count = item.part_begin(replicas);
  } else if (kind.scatters()) {
    const auto part = item.input_parts.front().begin() + replica;
    count = (part[1] - part[0]) * item.row_elements;
  } else if (kind.rows == Rows::own) {
    count = count_of(item, item.output_parts[group.place_of(replica)]);
  } else if (kind.reduces() && kind.has_own_outputs()) {
    count /= replicas;
  }
  const DType dtype = kind.reduces() ? result_dtype(descriptor.op, item.dtype) : item.dtype;
  return static_cast<std::size_t>(count) * size_of(dtype);
}

/// Calls `advance` of all ProxyClients or ProxyServers in `parts`, which send in this order. Returns whether `is_over`
/// is true for all of them.
template <class Parts>
bool advance_all(Parts& parts, Transport& transport) {
  bool may_send = true;
  bool are_over = true;
  for (auto& part : parts) {
    part.advance(transport, may_send);
    may_send = may_send && part.has_sent();
    are_over = are_over && part.is_over();
  }
  return are_over;
}

}  // namespace

ProxyMessage message_to_server(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
                               std::span<const HostItem> items) {
  ProxyMessage message;
  message.bytes = aligned(items.size());
  const bool is_from_root = descriptor.traits().inputs == Place::root;
  // a root sends its input only to the leader of its first replica's GPU
  if (is_from_root && (client.rank != descriptor.root || group.leaders().of_rank(client.rank) != client.leader))
    return message;
  const std::vector<int> root{-1};
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const int replica : is_from_root ? root : client.replicas)
      add(message, i, replica, input_bytes(descriptor.traits(), group, items[i], replica));
  }
  return message;
}

ProxyMessage message_to_client(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
                               std::span<const HostItem> items, std::span<const std::byte> wanted) {
  ProxyMessage message;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (descriptor.traits().has_own_outputs()) {
      for (const int replica : client.replicas)
        add(message, i, replica, result_bytes(descriptor, group, items[i], replica));
    } else if (wanted[i] != std::byte{0}) {
      add(message, i, -1, result_bytes(descriptor, group, items[i], -1));
    }
  }
  return message;
}

void PinnedBlock::allocate(std::size_t bytes) {
  try {
    data_ = static_cast<std::byte*>(pinned_memory_resource()->allocate(bytes));
    bytes_ = bytes;
  } catch (const std::bad_alloc&) {
    throw_error(Code::unavailable, "cannot allocate {} bytes of pinned memory", bytes);
  }
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  if (!is_in_use_) {
    pinned_memory_resource()->deallocate(data_, bytes_);
    return;
  }
  log_warning("leaking {} bytes of pinned memory: a message or a copy is still pending", bytes_);
  leak(data_);
}

ProxyClient::ProxyClient(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
                         std::span<const HostItem> items)
    : group_(group),
      server_rank_(group.leaders()[client.leader].rank),
      stream_(group.stream_on(client.device)),
      fetched_(client.device) {
  std::vector<std::byte> wanted;
  for (const HostItem& item : items) {
    const bool is_wanted = std::any_of(item.output_places.begin(), item.output_places.end(),
                                       [&](const auto& place) { return place.device.index == client.device; });
    wanted.push_back(std::byte{is_wanted});
  }
  const ProxyMessage sent = message_to_server(descriptor, group, client, items);
  const ProxyMessage received = message_to_client(descriptor, group, client, items, wanted);
  sent_bytes_ = sent.bytes;
  block_.allocate(sent.bytes + received.bytes);
  std::copy(wanted.begin(), wanted.end(), inputs().begin());
  list_inputs(sent, items);
  list_results(received, items);
}

void ProxyClient::list_inputs(const ProxyMessage& message, std::span<const HostItem> items) {
  for (const ProxyTensor& tensor : message.tensors) {
    const HostItem& item = items[tensor.item];
    const int local = tensor.replica < 0 ? 0 : tensor.replica - group_.layout().first(group_.rank());
    const auto index = static_cast<std::size_t>(local);
    fetches_.push_back({inputs().data() + tensor.begin, item.inputs[index], tensor.bytes,
                        group_.stream_on(item.input_places[index].device.index)});
  }
}

void ProxyClient::list_results(const ProxyMessage& message, std::span<const HostItem> items) {
  for (const ProxyTensor& tensor : message.tensors) {
    const HostItem& item = items[tensor.item];
    const void* source = results().data() + tensor.begin;
    if (tensor.replica >= 0) {
      const auto local = static_cast<std::size_t>(tensor.replica - group_.layout().first(group_.rank()));
      deliveries_.push_back({item.outputs[local], source, tensor.bytes, stream_});
      continue;
    }
    for (std::size_t i = 0; i < item.outputs.size(); ++i) {
      if (group_.stream_on(item.output_places[i].device.index) != stream_) continue;
      if (item.outputs[i] != source) deliveries_.push_back({item.outputs[i], source, tensor.bytes, stream_});
      source = item.outputs[i];  // the next output is copied from this output, on the GPU
    }
  }
}

void ProxyClient::start(Transport& transport) {
  block_.use();
  for (const Copy& copy : fetches_) group_.streams()[copy.stream]->copy(copy.target, copy.source, copy.bytes);
  const GpuStream& here = *group_.streams()[stream_];
  for (const Copy& copy : fetches_) {  // a root's input may be on another GPU of the root
    const GpuStream& other = *group_.streams()[copy.stream];
    if (copy.stream != stream_) cuda::put_in_order(other.handle.get(), other.device(), here.handle.get());
  }
  fetched_.record(here.handle.get());
  if (!results().empty()) receiving_ = transport.receive(server_rank_, results());
}

void ProxyClient::advance(Transport& transport, bool may_send) {
  if (!has_sent_ && may_send && fetched_.is_done()) {
    sending_ = transport.send(server_rank_, inputs());
    has_sent_ = true;
  }
  if (sending_ && transport.test(*sending_)) sending_.reset();
  if (!receiving_ || !transport.test(*receiving_)) return;
  receiving_.reset();
  for (const Copy& copy : deliveries_) group_.streams()[copy.stream]->copy(copy.target, copy.source, copy.bytes);
}

void ProxyClient::release() noexcept {
  if (!sending_ && !receiving_) block_.release();
}

ProxyServer::ProxyServer(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
                         std::span<const HostItem> items)
    : descriptor_(descriptor),
      group_(group),
      client_(client),
      stream_(static_cast<std::size_t>(client.leader - group.leaders().first(group.rank()))),
      inputs_(message_to_server(descriptor, group, client, items)),
      fetched_(group.streams()[stream_]->device()) {
  // the proxy does not know yet which results the client wants, so it allocates memory for all of them
  const std::vector<std::byte> all(items.size(), std::byte{1});
  block_.allocate(inputs_.bytes + message_to_client(descriptor, group, client, items, all).bytes);
}

void ProxyServer::start(Transport& transport) {
  block_.use();
  receiving_ = transport.receive(client_.rank, inputs());
}

bool ProxyServer::has_inputs(Transport& transport) {
  if (receiving_ && transport.test(*receiving_)) receiving_.reset();
  return !receiving_;
}

void ProxyServer::add_inputs(std::vector<HostItem>& items, const AllocateScratch& scratch) {
  const Device device{DeviceKind::gpu, stream().device(), 0};
  if (!inputs_.tensors.empty()) {
    auto* const here = static_cast<std::byte*>(scratch(stream_, inputs_.bytes));
    stream().copy(here, inputs().data(), inputs_.bytes);
    for (const ProxyTensor& tensor : inputs_.tensors) {
      items[tensor.item].inputs.push_back(here + tensor.begin);
      items[tensor.item].input_places.push_back({device, tensor.bytes});
    }
  }
  results_ = message_to_client(descriptor_, group_, client_, items, inputs().first(items.size()));
  if (results_.tensors.empty()) return;
  auto* const here = static_cast<std::byte*>(scratch(stream_, results_.bytes));
  results_on_gpu_ = here;
  for (const ProxyTensor& tensor : results_.tensors) {
    items[tensor.item].outputs.push_back(here + tensor.begin);
    items[tensor.item].output_places.push_back({device, tensor.bytes});
  }
}

void ProxyServer::fetch_results() {
  stream().copy(results().data(), results_on_gpu_, results().size());
  fetched_.record(stream().handle.get());
}

void ProxyServer::advance(Transport& transport, bool may_send) {
  if (!has_sent_ && may_send && fetched_.is_done()) {
    if (!results().empty()) sending_ = transport.send(client_.rank, results());
    has_sent_ = true;
  }
  if (sending_ && transport.test(*sending_)) sending_.reset();
}

void ProxyServer::release() noexcept {
  if (!receiving_ && !sending_) block_.release();
}

Proxies::Proxies(const Descriptor& descriptor, const GpuGroup& group, std::span<const HostItem> items) {
  for (const ProxiedRank& client : group.leaders().proxied_ranks()) {
    if (client.rank == group.rank()) clients_.emplace_back(descriptor, group, client, items);
    if (group.leaders()[client.leader].rank == group.rank()) servers_.emplace_back(descriptor, group, client, items);
  }
}

void Proxies::start(Transport& transport) {
  for (ProxyClient& client : clients_) client.start(transport);
  for (ProxyServer& server : servers_) server.start(transport);
}

bool Proxies::advance_clients(Transport& transport) { return advance_all(clients_, transport); }

bool Proxies::receive_inputs(Transport& transport, std::vector<HostItem>& items, const AllocateScratch& scratch) {
  if (has_inputs_) return true;
  bool all = true;
  for (ProxyServer& server : servers_) all = server.has_inputs(transport) && all;
  if (!all) return false;
  for (ProxyServer& server : servers_) server.add_inputs(items, scratch);
  has_inputs_ = true;
  return true;
}

bool Proxies::send_results(Transport& transport) {
  if (!is_fetching_) {
    for (ProxyServer& server : servers_) server.fetch_results();
    is_fetching_ = true;
  }
  return advance_all(servers_, transport);
}

void Proxies::release() noexcept {
  for (ProxyClient& client : clients_) client.release();
  for (ProxyServer& server : servers_) server.release();
}

}  // namespace lockstep::detail
