// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/gpu_operation.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "collectives/call/backoff.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace lockstep::detail {

UnevenRows::UnevenRows(const GpuGroup& group, std::vector<HostItem>& items)
    : group_(group), items_(items), agreement_(group.layout(), group.rank(), items) {}

void UnevenRows::start(Transport& transport, Workspace& workspace) {
  agreement_.start(transport, workspace, transfers_);
  for (const ProxiedRank& client : group_.leaders().proxied_ranks()) {
    if (client.rank == group_.rank()) send_rows(transport, workspace, client);
    const bool is_here = group_.leaders()[client.leader].rank == group_.rank();
    received_.push_back(is_here ? transfers_.receive(transport, workspace, client.rank, message_bytes(client))
                                : nullptr);
  }
}

bool UnevenRows::advance(Transport& transport, Workspace& workspace) {
  if (!is_agreed_) {
    if (!agreement_.advance(transport, workspace, transfers_)) return false;
    is_agreed_ = true;
    failure_ = agreement_.failure();
    for (std::size_t i = 0; i < received_.size(); ++i) {
      if (received_[i] != nullptr) read_rows(group_.leaders().proxied_ranks()[i], received_[i]);
    }
  }
  if (!transfers_.all_sent(transport)) return false;
  transfers_.release(workspace);
  return true;
}

/// The message contains, for each item and each replica of the client, the PartBegins of the input and then the
/// PartBegins of the output.
std::size_t UnevenRows::message_bytes(const ProxiedRank& client) const {
  const auto begins = static_cast<std::size_t>(group_.layout().replicas()) + 1;
  return items_.size() * client.replicas.size() * 2 * begins * sizeof(std::int64_t);
}

void UnevenRows::send_rows(Transport& transport, Workspace& workspace, const ProxiedRank& client) {
  const std::span<std::byte> message = transfers_.new_buffer(workspace, message_bytes(client));
  std::byte* next = message.data();
  for (const HostItem& item : items_) {
    for (const int replica : client.replicas) {
      const std::size_t place = group_.place_of(replica);
      for (const PartBegins* const begins : {&item.input_parts[place], &item.output_parts[place]}) {
        const std::size_t bytes = begins->size() * sizeof(std::int64_t);
        std::memcpy(next, begins->data(), bytes);
        next += bytes;
      }
    }
  }
  transfers_.send(transport, group_.leaders()[client.leader].rank, message);
}

void UnevenRows::read_rows(const ProxiedRank& client, const std::byte* next) {
  PartBegins begins(static_cast<std::size_t>(group_.layout().replicas()) + 1);
  const std::size_t bytes = begins.size() * sizeof(std::int64_t);
  for (HostItem& item : items_) {
    for (std::size_t i = 0; i < client.replicas.size(); ++i) {
      for (std::vector<PartBegins>* const parts : {&item.input_parts, &item.output_parts}) {
        std::memcpy(begins.data(), next, bytes);
        next += bytes;
        parts->push_back(begins);
      }
    }
  }
}

GpuOperation::GpuOperation(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
    : Operation(descriptor),
      group_(std::move(group)),
      items_(std::move(items)),
      is_last_step_done_(group_->led_streams() == 0) {
  if (descriptor.traits().rows == Rows::own) {
    rows_.emplace(*group_, items_);
  } else {
    proxies_.emplace(descriptor, *group_, items_);
  }
  const auto note = [this](const GpuPlace& place) {
    auto& event = ready_[place.device];
    if (event) return;
    event = std::make_unique<cuda::OwnedEvent>(place.device.index);
    event->record(cuda::stream_of(place.device));
  };
  for (const HostItem& item : items_) {
    std::for_each(item.input_places.begin(), item.input_places.end(), note);
    std::for_each(item.output_places.begin(), item.output_places.end(), note);
  }
}

void GpuOperation::start(Transport& transport, Workspace& workspace) {
  if (group_->comms() != nullptr && !group_->comms()->are_there())
    throw_error(Code::unavailable, "NCCL was aborted by an error in another operation; repeat the call");
  is_started_ = true;
  for (const auto& [device, event] : ready_) event->hold_back(cuda_stream(group_->stream_on(device.index)));
  if (proxies_) {
    proxies_->start(transport);
  } else {
    rows_->start(transport, workspace);
  }
}

bool GpuOperation::advance(Transport& transport, Workspace& workspace) {
  if (!proxies_) {
    if (!rows_->advance(transport, workspace)) return false;
    if (rows_->failure() != nullptr) return true;
    proxies_.emplace(descriptor(), *group_, items_);
    proxies_->start(transport);
  }
  const bool clients_are_over = proxies_->advance_clients(transport);
  if (!nccl_is_ready()) return false;
  const auto take = [this](std::size_t stream, std::size_t bytes) { return scratch(stream, bytes); };
  if (!proxies_->receive_inputs(transport, items_, take)) return false;
  while (!is_last_step_done_) {
    const cuda::ProfilerRange range(descriptor().traits().name);
    is_last_step_done_ = do_step(step_++);
    if (!nccl_is_ready()) return false;
  }
  if (!proxies_->send_results(transport) || !clients_are_over) return false;
  if (ends_.empty()) close();
  if (!has_ended()) return false;
  proxies_->release();
  return true;
}

void GpuOperation::close() {
  std::vector<std::unique_ptr<cuda::OwnedEvent>> ends;
  for (const auto& stream : group_->streams()) {
    ends.push_back(std::make_unique<cuda::OwnedEvent>(stream->device()));
    ends.back()->record(stream->handle.get());
  }
  for (const auto& [device, event] : ready_) ends[group_->stream_on(device.index)]->hold_back(cuda::stream_of(device));
  ends_ = std::move(ends);
}

void GpuOperation::hold_back(void* stream) const {
  for (const auto& end : ends_) end->hold_back(stream);
}

bool GpuOperation::has_ended() const {
  return std::all_of(ends_.begin(), ends_.end(), [](const auto& end) { return end->is_done(); });
}

bool GpuOperation::abandon(Transport& transport) noexcept {
  if (!is_started_) return false;
  if (rows_) rows_->abandon(transport);
  if (group_->comms() != nullptr) group_->comms()->abort();
  if (ends_soon()) {
    // pending receives may stay: a receive of this epoch cannot match a message of the next epoch
    if (proxies_) proxies_->release();
    return false;
  }
  log_warning("leaking the memory of {}: its work on a GPU is still pending", describe(descriptor()));
  for (cuda::StreamBlock& block : scratch_) block.leak();
  group_->mark_leaked();
  return true;
}

bool GpuOperation::ends_soon() noexcept {
  constexpr std::chrono::seconds timeout{2};
  try {
    if (ends_.empty()) close();
    const auto until = std::chrono::steady_clock::now() + timeout;
    Backoff backoff(Backoff::shared_core_spins);
    while (!has_ended()) {
      if (std::chrono::steady_clock::now() > until) return false;
      backoff.pause();
    }
    return true;
  } catch (const std::exception& fault) {
    log_warning("{}", fault.what());
    return false;
  }
}

const void* GpuOperation::input_of(const HostItem& item, int replica) const { return item.inputs[place_of(replica)]; }

void* GpuOperation::output_of(const HostItem& item, int replica) const { return item.outputs[place_of(replica)]; }

std::vector<void*> GpuOperation::outputs_on(std::size_t stream, const HostItem& item) const {
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < item.outputs.size(); ++i) {
    if (item.output_places[i].device.index == device_of(stream)) outputs.push_back(item.outputs[i]);
  }
  return outputs;
}

void* GpuOperation::scratch(std::size_t stream, std::size_t bytes) {
  try {
    scratch_.emplace_back(bytes, device_of(stream), cuda_stream(stream));
    return scratch_.back().data();
  } catch (const std::bad_alloc&) {
    throw_error(Code::unavailable, "out of memory on gpu:{}: {} bytes requested", device_of(stream), bytes);
  }
}

void GpuOperation::copy(std::size_t stream, std::span<const cuda::CopyRegion> pieces) {
  if (pieces.empty()) return;
  const cuda::CurrentDevice current(device_of(stream));
  cuda::Backend& backend = cuda::Backend::of_this_process();
  cuda::check(backend.api(), backend.kernels().copy(pieces, cuda_stream(stream)), "copy kernel");
}

void GpuOperation::order(std::size_t earlier, std::size_t later) {
  if (earlier != later) cuda::put_in_order(cuda_stream(earlier), device_of(earlier), cuda_stream(later));
}

}  // namespace lockstep::detail
