// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/gpu_operation.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "collectives/call/backoff.hpp"
#include "collectives/gpu/fold_parts.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace lockstep::detail {

GpuOperation::GpuOperation(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
    : Operation(descriptor),
      group_(std::move(group)),
      items_(std::move(items)),
      is_last_step_done_(group_->led_lanes() == 0) {
  if (descriptor.kind == OperationKind::all_to_all_v) {
    rows_.emplace(*group_, items_);
  } else {
    guests_.emplace(descriptor, *group_, items_);
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
    throw_error(Code::unavailable, "NCCL was ended by an error in another operation; call again");
  is_started_ = true;
  for (const auto& [device, event] : ready_) event->hold_back(stream_of(group_->lane_on(device.index)));
  if (guests_) {
    guests_->start(transport);
  } else {
    rows_->start(transport, workspace);
  }
}

bool GpuOperation::advance(Transport& transport, Workspace& workspace) {
  if (!guests_) {
    if (!rows_->advance(transport, workspace)) return false;
    if (rows_->failure() != nullptr) return true;
    guests_.emplace(descriptor(), *group_, items_);
    guests_->start(transport);
  }
  const bool visits_are_over = guests_->advance_visits(transport);
  if (!nccl_is_ready()) return false;
  const auto take = [this](std::size_t lane, std::size_t bytes) { return scratch(lane, bytes); };
  if (!guests_->have_come(transport, items_, take)) return false;
  while (!is_last_step_done_) {
    is_last_step_done_ = do_step(step_++);
    if (!nccl_is_ready()) return false;
  }
  if (!guests_->have_gone(transport) || !visits_are_over) return false;
  if (ends_.empty()) close();
  if (!has_ended()) return false;
  guests_->settle();
  return true;
}

void GpuOperation::close() {
  std::vector<std::unique_ptr<cuda::OwnedEvent>> ends;
  for (const auto& lane : group_->lanes()) {
    ends.push_back(std::make_unique<cuda::OwnedEvent>(lane->device()));
    ends.back()->record(lane->stream.get());
  }
  for (const auto& [device, event] : ready_) ends[group_->lane_on(device.index)]->hold_back(cuda::stream_of(device));
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
    // a message that did not come belongs to this epoch: it takes none of the next one's
    if (guests_) guests_->settle();
    return false;
  }
  log_warning("what a GPU does for {} did not end; its memory is kept", describe(descriptor()));
  for (cuda::StreamBlock& block : scratch_) block.leak();
  group_->keep_for_ever();
  return true;
}

bool GpuOperation::ends_soon() noexcept {
  constexpr std::chrono::seconds patience{2};
  try {
    if (ends_.empty()) close();
    const auto until = std::chrono::steady_clock::now() + patience;
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

std::vector<void*> GpuOperation::outputs_on(std::size_t lane, const HostItem& item) const {
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < item.outputs.size(); ++i) {
    if (item.output_places[i].device.index == device_of(lane)) outputs.push_back(item.outputs[i]);
  }
  return outputs;
}

void* GpuOperation::scratch(std::size_t lane, std::size_t bytes) {
  try {
    scratch_.emplace_back(bytes, device_of(lane), stream_of(lane));
    return scratch_.back().data();
  } catch (const std::bad_alloc&) {
    throw_error(Code::unavailable, "gpu:{} has no {} bytes of memory left", device_of(lane), bytes);
  }
}

void GpuOperation::fold(std::size_t lane, const Fold& fold, std::int64_t count) {
  constexpr auto most = static_cast<std::size_t>(cuda::Kernels::most_inputs);
  if (fold.inputs.size() <= most) {
    fold_at_once(lane, fold, count);
    return;
  }
  const FoldParts parts = fold_parts(fold.merges, most);
  const DType dtype = accumulation_dtype(fold.op, fold.dtype);
  std::vector<FoldInput> inputs;
  for (const FoldPart& part : parts.parts) {
    inputs.push_back(fold.inputs[part.first]);
    if (part.merges.size() == 1) continue;
    void* const output = scratch(lane, static_cast<std::size_t>(count) * size_of(dtype));
    fold_at_once(lane,
                 {.op = fold.op,
                  .dtype = fold.dtype,
                  .inputs = fold.inputs.subspan(part.first, part.merges.size()),
                  .merges = part.merges,
                  .outputs = std::span(&output, 1),
                  .result = FoldResult::partial},
                 count);
    inputs.back() = {output, true};
  }
  Fold rest = fold;
  rest.inputs = inputs;
  rest.merges = parts.merges;
  this->fold(lane, rest, count);
}

void GpuOperation::fold_at_once(std::size_t lane, const Fold& fold, std::int64_t count) {
  if (count == 0 || fold.outputs.empty()) return;
  const cuda::CurrentDevice current(device_of(lane));
  cuda::Backend& backend = cuda::Backend::of_this_process();
  Fold launched = fold;
  launched.outputs = fold.outputs.first(std::min<std::size_t>(fold.outputs.size(), cuda::Kernels::most_outputs));
  cuda::check(backend.api(), backend.kernels().reduce(launched, count, stream_of(lane)), "reduce kernel");
  const DType dtype =
      fold.result == FoldResult::partial ? accumulation_dtype(fold.op, fold.dtype) : result_dtype(fold.op, fold.dtype);
  std::vector<cuda::CopyRegion> further;
  for (void* const output : fold.outputs.subspan(launched.outputs.size()))
    further.push_back({fold.outputs.front(), output, static_cast<std::size_t>(count) * size_of(dtype)});
  copy(lane, further);
}

void GpuOperation::copy(std::size_t lane, std::span<const cuda::CopyRegion> pieces) {
  if (pieces.empty()) return;
  const cuda::CurrentDevice current(device_of(lane));
  cuda::Backend& backend = cuda::Backend::of_this_process();
  cuda::check(backend.api(), backend.kernels().copy(pieces, stream_of(lane)), "copy kernel");
}

void GpuOperation::order(std::size_t earlier, std::size_t later) {
  if (earlier != later) cuda::put_in_order(stream_of(earlier), device_of(earlier), stream_of(later));
}

}  // namespace lockstep::detail
