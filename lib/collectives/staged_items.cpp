// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/staged_items.hpp"

#include "collectives/make_communicator.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/device/gpu.hpp>

#include <algorithm>

namespace lockstep::detail {
namespace {

template <class View>
bool all_lie_on(std::span<const View> views, DeviceKind kind) noexcept {
  return std::all_of(views.begin(), views.end(), [kind](const View& view) { return view.device.kind == kind; });
}

Tensor room_for(const ConstTensorView& view, Device place) {
  return Tensor::uninitialized(view.dtype, view.shape, is_on_host(place) ? pinned_memory_resource() : nullptr, place);
}

}  // namespace

DeviceKind kind_of(const Item& item, DataPath path, DecidedBy decided_by) noexcept {
  if (path == DataPath::host) return DeviceKind::cpu;
  const bool by_inputs = item.outputs.empty() || (decided_by == DecidedBy::inputs && !item.inputs.empty());
  const bool on_gpus = by_inputs ? all_lie_on(item.inputs, DeviceKind::gpu) : all_lie_on(item.outputs, DeviceKind::gpu);
  return on_gpus ? DeviceKind::gpu : DeviceKind::cpu;
}

bool touches_gpus(std::span<const Item> items) noexcept {
  return !std::all_of(items.begin(), items.end(), [](const Item& item) {
    return all_lie_on(item.inputs, DeviceKind::cpu) && all_lie_on(item.outputs, DeviceKind::cpu);
  });
}

Staging::Staging(const StagingRule& rule) : path_(rule.path), decided_by_(rule.decided_by) {
  if (rule.communicator == nullptr) return;
  if (const auto negotiated = CommunicatorAccess::negotiated_gpus(*rule.communicator)) gpus_ = negotiated->devices;
}

bool Staging::is_there(Device place, const Item& item, DeviceKind kind) const noexcept {
  if (place.kind != kind || kind == DeviceKind::cpu) return place.kind == kind;
  if (decided_by_ == DecidedBy::outputs)
    return gpus_.empty() || std::find(gpus_.begin(), gpus_.end(), place.index) != gpus_.end();
  return std::any_of(item.inputs.begin(), item.inputs.end(), [&](const ConstTensorView& input) {
    return input.device.kind == kind && input.device.index == place.index;
  });
}

bool Staging::is_needed(std::span<const Item> items) const noexcept {
  if (items.empty()) return false;
  const DeviceKind kind = kind_of(items.front());
  return !std::all_of(items.begin(), items.end(), [&](const Item& item) {
    const auto lies_there = [&](const auto& view) { return is_there(view.device, item, kind); };
    return kind_of(item) == kind && std::all_of(item.inputs.begin(), item.inputs.end(), lies_there) &&
           std::all_of(item.outputs.begin(), item.outputs.end(), lies_there);
  });
}

Device Staging::place_of(const Item& item, DeviceKind kind) const noexcept {
  if (kind == DeviceKind::cpu) return {};
  for (const ConstTensorView& input : item.inputs) {
    if (is_there(input.device, item, kind)) return input.device;
  }
  for (const TensorView& output : item.outputs) {
    if (is_there(output.device, item, kind)) return output.device;
  }
  return {DeviceKind::gpu, gpus_.front()};  // gpus_ is not empty: with an empty gpus_, no view on a GPU needs a copy
}

StagedItems::StagedItems(std::span<const Item> items, const Staging& staging) : staging_(staging) {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const Item& item : items) {
    inputs += item.inputs.size();
    outputs += item.outputs.size() + 1;
  }
  inputs_.reserve(inputs);
  outputs_.reserve(outputs);
}

void StagedItems::add(const Item& item, DeviceKind kind) {
  const std::size_t first_input = inputs_.size();
  const std::size_t first_output = outputs_.size();
  const Device place = staging_.place_of(item, kind);
  for (const ConstTensorView& input : item.inputs) {
    if (staging_.is_there(input.device, item, kind)) {
      inputs_.push_back(input);
      continue;
    }
    Tensor& there = copies_.emplace_back(room_for(input, place));
    copy(there.view(), input);
    inputs_.push_back(there.view());
  }
  add_outputs(item, kind, place);
  items_.push_back({std::span(inputs_).subspan(first_input), std::span(outputs_).subspan(first_output)});
}

void StagedItems::add_outputs(const Item& item, DeviceKind kind, Device place) {
  if (item.outputs.empty()) return;
  const auto is_there = [&](const TensorView& output) { return staging_.is_there(output.device, item, kind); };
  // all outputs are equal, so an output on another device is copied from an output that the call writes
  const auto found = std::find_if(item.outputs.begin(), item.outputs.end(), is_there);
  const bool is_elsewhere = found == item.outputs.end();
  const TensorView result =
      is_elsewhere ? copies_.emplace_back(room_for(item.outputs.front(), place)).view() : TensorView(*found);
  if (is_elsewhere) outputs_.push_back(result);
  for (const TensorView& output : item.outputs) {
    if (is_there(output)) {
      outputs_.push_back(output);
    } else {
      returns_.push_back({output, result});
    }
  }
}

void StagedItems::finish() {
  for (const Return& one : returns_) copy(one.target, one.source);
}

}  // namespace lockstep::detail
