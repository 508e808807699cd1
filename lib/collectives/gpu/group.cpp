// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/group.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/copies.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::detail {

void Lane::copy(void* target, const void* source, std::size_t bytes) const {
  if (bytes == 0) return;
  cuda::Api& api = cuda::Backend::of_this_process().api();
  const cuda::CurrentDevice current(device());
  cuda::check(api, api.memcpy_async(target, source, bytes, stream.get()), "cudaMemcpyAsync");
}

void Lane::copy_to(const Lane& lane, void* target, const void* source, std::size_t bytes) const {
  if (bytes == 0) return;
  const cuda::CurrentDevice current(device());
  cuda::start_copy(target, lane.device(), source, device(), bytes, stream.get());
}

GpuGroup::GpuGroup(std::uint64_t epoch, std::span<const GpuClaim> claims, const ReplicaLayout& layout, int rank)
    : epoch_(epoch), layout_(layout), rank_(rank), decision_(decide_route(claims, layout)), leaders_(claims, layout) {
  for (int replica = layout.first(rank); replica < layout.first(rank + 1); ++replica)
    devices_.push_back(claims[static_cast<std::size_t>(replica)].device);
  if (decision_.route == GpuRoute::host) return;
  std::vector<int> gpus;
  for (int leader = leaders_.first(rank); leader < leaders_.first(rank + 1); ++leader)
    gpus.push_back(leaders_[leader].device);
  for (const int gpu : gpus) lanes_.push_back(std::make_unique<Lane>(gpu));
  led_lanes_ = lanes_.size();
  for (const Guest& guest : leaders_.guests()) {
    if (guest.rank == rank) lanes_.push_back(std::make_unique<Lane>(guest.device));
    if (leaders_[guest.leader].rank == rank)
      guest_replicas_.insert(guest_replicas_.end(), guest.replicas.begin(), guest.replicas.end());
  }
  if (decision_.route == GpuRoute::nccl && led_lanes_ != 0)
    comms_ = std::make_shared<NcclComms>(cuda::Backend::of_this_process().nccl().api, gpus);
}

std::shared_ptr<GpuGroup> GpuGroup::make(std::uint64_t epoch, std::span<const GpuClaim> claims,
                                         const ReplicaLayout& layout, int rank) {
  return {new GpuGroup(epoch, claims, layout, rank), [](GpuGroup* group) {
            if (!cuda::Backend::of_this_process().is_of_this_process()) return;
            if (group->is_kept_) {
              leak(group);
            } else {
              delete group;
            }
          }};
}

void GpuGroup::fall_back(const std::string& why) {
  decision_ = {GpuRoute::host, why, {}};
  comms_.reset();
  lanes_.clear();
  led_lanes_ = 0;
}

std::uint64_t GpuGroup::fingerprint() const noexcept {
  return epoch_ << 8 | static_cast<std::uint64_t>(decision_.route);
}

std::size_t GpuGroup::place_of(int replica) const {
  if (layout_.rank_of(replica) == rank_) return static_cast<std::size_t>(replica - layout_.first(rank_));
  const auto found = std::find(guest_replicas_.begin(), guest_replicas_.end(), replica);
  LOCKSTEP_CHECK(found != guest_replicas_.end());
  return static_cast<std::size_t>(layout_.count(rank_)) + static_cast<std::size_t>(found - guest_replicas_.begin());
}

std::size_t GpuGroup::lane_on(int device) const {
  const auto lane =
      std::find_if(lanes_.begin(), lanes_.end(), [device](const auto& each) { return each->device() == device; });
  LOCKSTEP_CHECK(lane != lanes_.end());
  return static_cast<std::size_t>(lane - lanes_.begin());
}

void GpuGroup::require_places(const Call& call, std::span<const HostItem> items) const {
  const std::vector<Device> now = replica_devices(call.kind, items);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].index == devices_[i]) continue;
    throw_error(
        Code::invalid_argument,
        "{}: replica {} has its tensors on {}, but had them on gpu:{} at the first call on GPUs; the replicas of "
        "a communicator stay where they are",
        call.name(), layout_.first(rank_) + static_cast<int>(i), to_string(now[i]), devices_[i]);
  }
  const auto require = [&](const GpuPlace& place) {
    if (std::find(devices_.begin(), devices_.end(), place.device.index) != devices_.end()) return;
    throw_error(Code::invalid_argument,
                "{}: a tensor lies on {}, but this rank's replicas had theirs on gpu:{} at the first call on GPUs; the "
                "replicas of a communicator stay where they are",
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
