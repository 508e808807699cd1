// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/nccl_all_reduce.hpp>

#include "collectives/staged_items.hpp"
#include "cross_device/all_reduce_packs.hpp"
#include "cross_device/nccl_demand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace lockstep {

NcclAllReduce::NcclAllReduce(int num_packs, Order order)
    : num_packs_(checked_num_packs(num_packs, "NcclAllReduce")), order_(order) {}

std::string NcclAllReduce::describe() const { return fmt::format("NcclAllReduce(num_packs {})", num_packs_); }

void NcclAllReduce::do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                    const CommunicationOptions& options) {
  require_nccl_here("NcclAllReduce");
  const auto first = std::find_if(items.begin(), items.end(), [&](const Item& item) {
    return detail::kind_of(item, detail::route_of(options), detail::DecidedBy::inputs) == DeviceKind::gpu;
  });
  if (first != items.end()) {
    std::vector<Device> devices;
    for (const ConstTensorView& input : first->inputs) devices.push_back(input.device);
    require_nccl_between(communicator, devices, "NcclAllReduce");
  }
  // what is in host memory keeps the order that it has there
  const std::optional<Order> order = is_canonical() ? std::optional(Order::canonical) : std::nullopt;
  all_reduce_in_packs(communicator, items, op, options, {.num_packs = num_packs_, .order = order});
}

}  // namespace lockstep
