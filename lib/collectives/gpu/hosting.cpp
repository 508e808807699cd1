// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/hosting.hpp"

namespace lockstep::detail {

Hosting::Hosting(const Descriptor& descriptor, const GpuGroup& group, const Guest& guest,
                 std::span<const HostItem> items)
    : descriptor_(descriptor),
      group_(group),
      guest_(guest),
      lane_(static_cast<std::size_t>(guest.leader - group.leaders().first(group.rank()))),
      inputs_(message_to_leader(descriptor, group, guest, items)),
      fetched_(group.lanes()[lane_]->device()) {
  // what the guest wants is not known yet
  const std::vector<std::byte> all(items.size(), std::byte{1});
  block_.allocate(inputs_.bytes + message_to_guest(descriptor, group, guest, items, all).bytes);
}

void Hosting::start(Transport& transport) {
  block_.use();
  receiving_ = transport.receive(guest_.rank, inputs());
}

bool Hosting::has_come(Transport& transport) {
  if (receiving_ && transport.test(*receiving_)) receiving_.reset();
  return !receiving_;
}

void Hosting::admit(std::vector<HostItem>& items, const TakeScratch& scratch) {
  const Device device{DeviceKind::gpu, lane().device(), 0};
  if (!inputs_.tensors.empty()) {
    auto* const here = static_cast<std::byte*>(scratch(lane_, inputs_.bytes));
    lane().copy(here, inputs().data(), inputs_.bytes);
    for (const GuestTensor& tensor : inputs_.tensors) {
      items[tensor.item].inputs.push_back(here + tensor.begin);
      items[tensor.item].input_places.push_back({device, tensor.bytes});
    }
  }
  results_ = message_to_guest(descriptor_, group_, guest_, items, inputs().first(items.size()));
  if (results_.tensors.empty()) return;
  auto* const here = static_cast<std::byte*>(scratch(lane_, results_.bytes));
  results_on_lane_ = here;
  for (const GuestTensor& tensor : results_.tensors) {
    items[tensor.item].outputs.push_back(here + tensor.begin);
    items[tensor.item].output_places.push_back({device, tensor.bytes});
  }
}

void Hosting::fetch() {
  lane().copy(results().data(), results_on_lane_, results().size());
  fetched_.record(lane().stream.get());
}

void Hosting::advance(Transport& transport, bool may_send) {
  if (!has_sent_ && may_send && fetched_.is_done()) {
    if (!results().empty()) sending_ = transport.send(guest_.rank, results());
    has_sent_ = true;
  }
  if (sending_ && transport.test(*sending_)) sending_.reset();
}

void Hosting::settle() noexcept {
  if (!receiving_ && !sending_) block_.settle();
}

}  // namespace lockstep::detail
