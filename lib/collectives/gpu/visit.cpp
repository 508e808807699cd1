// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/visit.hpp"

#include <algorithm>

namespace lockstep::detail {

Visit::Visit(const Descriptor& descriptor, const GpuGroup& group, const Guest& guest, std::span<const HostItem> items)
    : group_(group),
      leader_rank_(group.leaders()[guest.leader].rank),
      lane_(group.lane_on(guest.device)),
      fetched_(guest.device) {
  std::vector<std::byte> wanted;
  for (const HostItem& item : items) {
    const bool is_wanted = std::any_of(item.output_places.begin(), item.output_places.end(),
                                       [&](const auto& place) { return place.device.index == guest.device; });
    wanted.push_back(std::byte{is_wanted});
  }
  const GuestMessage sent = message_to_leader(descriptor, group, guest, items);
  const GuestMessage received = message_to_guest(descriptor, group, guest, items, wanted);
  sent_bytes_ = sent.bytes;
  block_.allocate(sent.bytes + received.bytes);
  std::copy(wanted.begin(), wanted.end(), inputs().begin());
  list_inputs(sent, items);
  list_results(received, items);
}

void Visit::list_inputs(const GuestMessage& message, std::span<const HostItem> items) {
  for (const GuestTensor& tensor : message.tensors) {
    const HostItem& item = items[tensor.item];
    const int local = tensor.replica < 0 ? 0 : tensor.replica - group_.layout().first(group_.rank());
    const auto index = static_cast<std::size_t>(local);
    fetches_.push_back({inputs().data() + tensor.begin, item.inputs[index], tensor.bytes,
                        group_.lane_on(item.input_places[index].device.index)});
  }
}

void Visit::list_results(const GuestMessage& message, std::span<const HostItem> items) {
  for (const GuestTensor& tensor : message.tensors) {
    const HostItem& item = items[tensor.item];
    const void* source = results().data() + tensor.begin;
    if (tensor.replica >= 0) {
      const auto local = static_cast<std::size_t>(tensor.replica - group_.layout().first(group_.rank()));
      deliveries_.push_back({item.outputs[local], source, tensor.bytes, lane_});
      continue;
    }
    for (std::size_t i = 0; i < item.outputs.size(); ++i) {
      if (group_.lane_on(item.output_places[i].device.index) != lane_) continue;
      if (item.outputs[i] != source) deliveries_.push_back({item.outputs[i], source, tensor.bytes, lane_});
      source = item.outputs[i];  // further ones are copied on the GPU
    }
  }
}

void Visit::start(Transport& transport) {
  block_.use();
  for (const Copy& copy : fetches_) group_.lanes()[copy.lane]->copy(copy.target, copy.source, copy.bytes);
  const Lane& here = *group_.lanes()[lane_];
  for (const Copy& copy : fetches_) {  // the input of a root may lie on another of its GPUs
    const Lane& other = *group_.lanes()[copy.lane];
    if (copy.lane != lane_) cuda::put_in_order(other.stream.get(), other.device(), here.stream.get());
  }
  fetched_.record(here.stream.get());
  if (!results().empty()) receiving_ = transport.receive(leader_rank_, results());
}

void Visit::advance(Transport& transport, bool may_send) {
  if (!has_sent_ && may_send && fetched_.is_done()) {
    sending_ = transport.send(leader_rank_, inputs());
    has_sent_ = true;
  }
  if (sending_ && transport.test(*sending_)) sending_.reset();
  if (!receiving_ || !transport.test(*receiving_)) return;
  receiving_.reset();
  for (const Copy& copy : deliveries_) group_.lanes()[copy.lane]->copy(copy.target, copy.source, copy.bytes);
}

void Visit::settle() noexcept {
  if (!sending_ && !receiving_) block_.settle();
}

}  // namespace lockstep::detail
