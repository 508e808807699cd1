// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/staged_items.hpp"

#include "device/host/host_elements.hpp"

#include <lockstep/device/gpu.hpp>

#include <algorithm>

namespace lockstep::detail {
namespace {

template <class View>
bool all_lie_on(std::span<const View> views, DeviceKind kind) noexcept {
  return std::all_of(views.begin(), views.end(), [kind](const View& view) { return view.device.kind == kind; });
}

/// Where copies for an item that goes between devices of that kind are made: where the first of its views lies that is
/// there already.
Device place_of(const Item& item, DeviceKind kind) noexcept {
  if (kind == DeviceKind::cpu) return {};
  for (const ConstTensorView& input : item.inputs) {
    if (input.device.kind == kind) return input.device;
  }
  for (const TensorView& output : item.outputs) {
    if (output.device.kind == kind) return output.device;
  }
  return {};
}

Tensor room_for(const ConstTensorView& view, Device place) {
  return Tensor::uninitialized(view.dtype, view.shape, is_on_host(place) ? pinned_memory_resource() : nullptr, place);
}

/// Whether a result of `item`, which goes between devices of that kind, can be written to `output` itself: where its
/// inputs decide and are on GPUs, only to one of theirs.
bool lies_there(const TensorView& output, const Item& item, DeviceKind kind, DecidedBy decided_by) noexcept {
  if (output.device.kind != kind) return false;
  return kind == DeviceKind::cpu || decided_by == DecidedBy::outputs ||
         std::any_of(item.inputs.begin(), item.inputs.end(), [&](const ConstTensorView& input) {
           return input.device.kind == kind && input.device.index == output.device.index;
         });
}

}  // namespace

DeviceKind kind_of(const Item& item, Route route, DecidedBy decided_by) noexcept {
  if (route == Route::host) return DeviceKind::cpu;
  const bool by_inputs = item.outputs.empty() || (decided_by == DecidedBy::inputs && !item.inputs.empty());
  const bool on_gpus = by_inputs ? all_lie_on(item.inputs, DeviceKind::gpu) : all_lie_on(item.outputs, DeviceKind::gpu);
  return on_gpus ? DeviceKind::gpu : DeviceKind::cpu;
}

bool needs_staging(std::span<const Item> items, Route route, DecidedBy decided_by) noexcept {
  if (items.empty()) return false;
  const DeviceKind kind = kind_of(items.front(), route, decided_by);
  return !std::all_of(items.begin(), items.end(), [&](const Item& item) {
    return kind_of(item, route, decided_by) == kind && all_lie_on(item.inputs, kind) &&
           std::all_of(item.outputs.begin(), item.outputs.end(),
                       [&](const TensorView& output) { return lies_there(output, item, kind, decided_by); });
  });
}

StagedItems::StagedItems(std::span<const Item> items, DecidedBy decided_by) : decided_by_(decided_by) {
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
  const Device place = place_of(item, kind);
  for (const ConstTensorView& input : item.inputs) {
    if (input.device.kind == kind) {
      inputs_.push_back(input);
      continue;
    }
    Tensor& there = copies_.emplace_back(room_for(input, place));
    copy(there.view(), input);
    inputs_.push_back(there.view());
  }
  add_outputs(item, place);
  items_.push_back({std::span(inputs_).subspan(first_input), std::span(outputs_).subspan(first_output)});
}

void StagedItems::add_outputs(const Item& item, Device place) {
  if (item.outputs.empty()) return;
  const auto is_there = [&](const TensorView& output) { return lies_there(output, item, place.kind, decided_by_); };
  // all get the same: what lies elsewhere gets a copy of one that does not
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
