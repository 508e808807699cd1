// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/places.hpp"

#include "base/check.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/streams.hpp"

#include <algorithm>

namespace lockstep::detail {

std::string CallWords::name(const TensorName& tensor) const {
  if (is_message_) return items_ == 1 ? "the tensor" : fmt::format("tensor {}", tensor.item);
  const std::string of_item = items_ == 1 ? "" : fmt::format(" of item {}", tensor.item);
  return fmt::format("{} {}{}", tensor.role, tensor.index, of_item);
}

std::string CallWords::owner(std::size_t item) const { return items_ == 1 ? "the call" : fmt::format("item {}", item); }

std::string CallWords::prefix(std::size_t item) const {
  return items_ == 1 ? "" : fmt::format("{} {}: ", is_message_ ? "tensor" : "item", item);
}

std::string Places::text_of(const Placed& placed) const {
  const std::string whose = placed.replica < 0 ? "" : fmt::format(" (replica {})", placed.replica);
  return fmt::format("{}{} is on {}", words_.name(placed.name), whose, to_string(placed.device));
}

void Places::add(const ConstTensorView& view, int replica, const TensorName& name) {
  const Device device = view.device;
  const Placed placed{device, replica, name};
  if (!first_) first_ = placed;
  if (device.kind != first_->device.kind && !traits(kind_).is_message()) {
    throw_error(Code::invalid_argument, "{}: {}, but {}; either all tensors of a call must be on GPUs, or none",
                to_string(kind_), text_of(placed), text_of(*first_));
  }
  if (device.kind == DeviceKind::cpu) return;
  by_device_.try_emplace(device, placed);
  if (view.element_count() != 0) by_address_.try_emplace({device, view.data}, placed);
  if (replica < 0) {
    shared_.push_back(placed);
    return;
  }
  const auto [first, is_first] = by_replica_.try_emplace(replica, placed);
  if (is_first || first->second.device == device) return;
  throw_error(Code::invalid_argument, "{}: {}, but {}; all tensors of a replica must be on one device",
              to_string(kind_), text_of(placed), text_of(first->second));
}

void Places::finish() const {
  for (const auto& [device, placed] : by_device_) {
    cuda::Backend::of_this_process().require(device, fmt::format("{}: {}", to_string(kind_), words_.name(placed.name)));
  }
  require_reach();
  if (by_replica_.empty()) return;  // a broadcast, or a message: the devices of the replicas are unknown
  for (const Placed& placed : shared_) {
    const bool is_known = std::any_of(by_replica_.begin(), by_replica_.end(), [&](const auto& entry) {
      return entry.second.device.index == placed.device.index;
    });
    if (is_known) continue;
    throw_error(Code::invalid_argument, "{}: {}, but no replica of this rank is on that device; for example, {}",
                to_string(kind_), text_of(placed), text_of(by_replica_.begin()->second));
  }
}

void Places::require_reach() const {
  for (auto at = by_address_.begin(); at != by_address_.end();) {
    const Device device = at->first.first;
    const cuda::CurrentDevice current(device.index);
    for (; at != by_address_.end() && at->first.first == device; ++at) {
      const std::string found = cuda::out_of_reach(at->first.second, device);
      if (found.empty()) continue;
      throw_error(Code::invalid_argument, "{}: {} according to its view, but its elements are {}", to_string(kind_),
                  text_of(at->second), found);
    }
  }
}

}  // namespace lockstep::detail
