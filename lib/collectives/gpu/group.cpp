// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/group.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/memory.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::detail {

void GpuStream::copy(void* target, const void* source, std::size_t bytes) const {
  if (bytes == 0) return;
  cuda::Api& api = cuda::Backend::of_this_process().api();
  const cuda::CurrentDevice current(device());
  cuda::check(api, api.memcpy_async(target, source, bytes, handle.get()), "cudaMemcpyAsync");
}

void GpuStream::copy_to(const GpuStream& other, void* target, const void* source, std::size_t bytes) const {
  if (bytes == 0) return;
  const cuda::CurrentDevice current(device());
  cuda::start_copy(target, other.device(), source, device(), bytes, handle.get());
}

GpuGroup::GpuGroup(std::uint64_t epoch, std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout,
                   int rank)
    : epoch_(epoch),
      layout_(layout),
      rank_(rank),
      decision_(decide_path(descriptors, layout)),
      leaders_(descriptors, layout) {
  for (int replica = layout.first(rank); replica < layout.first(rank + 1); ++replica)
    devices_.push_back(descriptors[static_cast<std::size_t>(replica)].device);
  if (decision_.path == GpuPath::host) return;
  std::vector<int> gpus;
  for (int leader = leaders_.first(rank); leader < leaders_.first(rank + 1); ++leader)
    gpus.push_back(leaders_[leader].device);
  for (const int gpu : gpus) streams_.push_back(std::make_unique<GpuStream>(gpu));
  led_streams_ = streams_.size();
  for (const ProxiedRank& client : leaders_.proxied_ranks()) {
    if (client.rank == rank) streams_.push_back(std::make_unique<GpuStream>(client.device));
    if (leaders_[client.leader].rank == rank)
      proxied_replicas_.insert(proxied_replicas_.end(), client.replicas.begin(), client.replicas.end());
  }
  if (decision_.path == GpuPath::nccl && led_streams_ != 0)
    comms_ = std::make_shared<NcclComms>(cuda::Backend::of_this_process().nccl().api, gpus);
}

std::shared_ptr<GpuGroup> GpuGroup::make(std::uint64_t epoch, std::span<const DeviceDescriptor> descriptors,
                                         const ReplicaLayout& layout, int rank) {
  return {new GpuGroup(epoch, descriptors, layout, rank), [](GpuGroup* group) {
            if (!cuda::Backend::of_this_process().is_of_this_process()) return;
            if (group->is_leaked_) {
              leak(group);
            } else {
              delete group;
            }
          }};
}

void GpuGroup::fall_back(const std::string& why) {
  decision_ = {GpuPath::host, why, {}};
  comms_.reset();
  streams_.clear();
  led_streams_ = 0;
}

std::uint64_t GpuGroup::fingerprint() const noexcept {
  return epoch_ << 8 | static_cast<std::uint64_t>(decision_.path);
}

std::size_t GpuGroup::place_of(int replica) const {
  if (layout_.rank_of(replica) == rank_) return static_cast<std::size_t>(replica - layout_.first(rank_));
  const auto found = std::find(proxied_replicas_.begin(), proxied_replicas_.end(), replica);
  LOCKSTEP_CHECK(found != proxied_replicas_.end());
  return static_cast<std::size_t>(layout_.count(rank_)) + static_cast<std::size_t>(found - proxied_replicas_.begin());
}

std::size_t GpuGroup::stream_on(int device) const {
  const auto stream =
      std::find_if(streams_.begin(), streams_.end(), [device](const auto& each) { return each->device() == device; });
  LOCKSTEP_CHECK(stream != streams_.end());
  return static_cast<std::size_t>(stream - streams_.begin());
}

void GpuGroup::require_places(const Call& call, std::span<const HostItem> items) const {
  const std::vector<Device> now = replica_devices(call.kind, items);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].index == devices_[i]) continue;
    throw_error(
        Code::invalid_argument,
        "{}: replica {} has its tensors on {}, but had them on gpu:{} at the first call on GPUs; the replicas of "
        "a communicator cannot change their GPUs",
        call.name(), layout_.first(rank_) + static_cast<int>(i), to_string(now[i]), devices_[i]);
  }
  const auto require = [&](const GpuPlace& place) {
    if (std::find(devices_.begin(), devices_.end(), place.device.index) != devices_.end()) return;
    throw_error(Code::invalid_argument,
                "{}: a tensor is on {}, but this rank's replicas had theirs on gpu:{} at the first call on GPUs; the "
                "replicas of a communicator cannot change their GPUs",
                call.name(), to_string(place.device), fmt::join(devices_, ", gpu:"));
  };
  for (const HostItem& item : items) {
    std::for_each(item.input_places.begin(), item.input_places.end(), require);
    std::for_each(item.output_places.begin(), item.output_places.end(), require);
  }
}

std::vector<Device> replica_devices(OperationKind kind, std::span<const HostItem> items) {
  const bool by_input = traits(kind).inputs == Place::replicas;
  if (items.empty() || (!by_input && !traits(kind).has_own_outputs())) return {};
  std::vector<Device> devices;
  for (const GpuPlace& place : by_input ? items.front().input_places : items.front().output_places)
    devices.push_back(place.device);
  return devices;
}

}  // namespace lockstep::detail
