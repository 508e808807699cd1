// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/all_reduce_cross_device_ops.hpp>

#include "cross_device/all_reduce_packs.hpp"

#include <fmt/format.h>

namespace lockstep {

AllReduceCrossDeviceOps::AllReduceCrossDeviceOps(int num_packs)
    : num_packs_(checked_num_packs(num_packs, "AllReduceCrossDeviceOps")) {}

std::string AllReduceCrossDeviceOps::describe() const {
  return fmt::format("AllReduceCrossDeviceOps(num_packs {})", num_packs_);
}

void AllReduceCrossDeviceOps::do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                              const CommunicationOptions& options) {
  all_reduce_in_packs(communicator, items, op, options, {.num_packs = num_packs_, .order = {}});
}

}  // namespace lockstep
