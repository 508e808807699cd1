// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of CrossDeviceOps that call the communicator's all_reduce. They divide a batch of values into packs
// (groups of consecutive values), and reduce each pack by one collective.

#include <lockstep/cross_device/all_reduce_cross_device_ops.hpp>
#include <lockstep/cross_device/nccl_all_reduce.hpp>
#include <lockstep/cross_device/packing.hpp>

#include "base/check.hpp"
#include "collectives/staged_items.hpp"
#include "cross_device/nccl_demand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

/// How a batch is divided into packs, and the order of its sums.
struct PackOptions {
  int num_packs = 1;           ///< number of packs, which have about equal numbers of elements; 0: one pack per value
  std::optional<Order> order;  ///< not set: the order of the communicator
};

std::int64_t elements_of(const Item& item) { return item.inputs.front().element_count(); }

/// The number of items in each pack if packs have a given size in bytes. Packs are filled from the last item to the
/// first, because the gradients of the last layers are available first.
std::vector<std::size_t> packs_by_size(std::span<const Item> items, std::int64_t bytes_per_pack) {
  std::vector<std::int64_t> bytes;
  for (const Item& item : items) bytes.push_back(static_cast<std::int64_t>(item.inputs.front().byte_count()));
  std::reverse(bytes.begin(), bytes.end());
  std::vector<std::size_t> counts;
  for (const auto pack : group_by_size(bytes, bytes_per_pack)) counts.push_back(pack.size());
  std::reverse(counts.begin(), counts.end());
  return counts;
}

/// The number of items in each of `num_packs` packs. A pack is closed when it has its share of all elements; the last
/// pack takes the rest.
std::vector<std::size_t> packs_by_number(std::span<const Item> items, int num_packs) {
  std::int64_t total = 0;
  for (const Item& item : items) total += elements_of(item);
  const std::int64_t share = total / num_packs;
  std::vector<std::size_t> counts{0};
  std::int64_t elements = 0;
  for (const Item& item : items) {
    if (elements >= share && counts.back() > 0 && counts.size() < static_cast<std::size_t>(num_packs)) {
      counts.push_back(0);
      elements = 0;
    }
    ++counts.back();
    elements += elements_of(item);
  }
  return counts;
}

/// The number of items in each pack.
std::vector<std::size_t> pack_sizes(std::span<const Item> items, const CommunicationOptions& options, int num_packs) {
  if (options.bytes_per_pack > 0) return packs_by_size(items, options.bytes_per_pack);
  if (num_packs > 1) return packs_by_number(items, num_packs);
  return num_packs == 1 ? std::vector{items.size()} : std::vector<std::size_t>(items.size(), 1);
}

/// Returns `num_packs`. If `num_packs` is negative, throws Error(invalid_argument) with a text that begins with
/// `caller`.
int checked_num_packs(int num_packs, std::string_view caller) {
  if (num_packs >= 0) return num_packs;
  detail::throw_error(Code::invalid_argument, "{}: num_packs is {}; it must be at least 0 (0: one pack per value)",
                      caller, num_packs);
}

/// Reduces the packs from the last to the first. `bytes_per_pack` of `options` takes precedence over the number of
/// packs. Collective.
void all_reduce_in_packs(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                         const CommunicationOptions& options, const PackOptions& packs) {
  const std::vector<std::size_t> counts = pack_sizes(items, options, packs.num_packs);
  const ReduceOptions how{.order = packs.order, .name = {}, .fail_after = options.deadline(), .where = options.where};
  std::size_t end = items.size();
  for (std::size_t pack = counts.size(); pack-- > 0;) {
    end -= counts[pack];
    detail::with_staged(items.subspan(end, counts[pack]), {.path = detail::path_of(options)},
                        [&](std::span<const Item> staged) { communicator.all_reduce(staged, op, how); });
  }
}

}  // namespace

std::vector<std::span<const std::int64_t>> group_by_size(std::span<const std::int64_t> bytes,
                                                         std::int64_t bytes_per_pack) {
  if (bytes_per_pack < 0) {
    detail::throw_error(Code::invalid_argument,
                        "group_by_size: bytes_per_pack is {}; it must be at least 0 (0: everything in one pack)",
                        bytes_per_pack);
  }
  std::vector<std::span<const std::int64_t>> packs;
  std::size_t begin = 0;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes_per_pack > 0 && size > bytes_per_pack) {
      packs.push_back(bytes.subspan(begin, i - begin));
      begin = i;
      size = 0;
    }
    size += bytes[i];
  }
  if (begin < bytes.size()) packs.push_back(bytes.subspan(begin));
  return packs;
}

AllReduceCrossDeviceOps::AllReduceCrossDeviceOps(int num_packs)
    : num_packs_(checked_num_packs(num_packs, "AllReduceCrossDeviceOps")) {}

std::string AllReduceCrossDeviceOps::describe() const {
  return fmt::format("AllReduceCrossDeviceOps(num_packs {})", num_packs_);
}

void AllReduceCrossDeviceOps::do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                              const CommunicationOptions& options) {
  all_reduce_in_packs(communicator, items, op, options, {.num_packs = num_packs_, .order = {}});
}

NcclAllReduce::NcclAllReduce(int num_packs, Order order)
    : num_packs_(checked_num_packs(num_packs, "NcclAllReduce")), order_(order) {}

std::string NcclAllReduce::describe() const { return fmt::format("NcclAllReduce(num_packs {})", num_packs_); }

void NcclAllReduce::do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                    const CommunicationOptions& options) {
  require_nccl_here("NcclAllReduce");
  const auto first = std::find_if(items.begin(), items.end(), [&](const Item& item) {
    return detail::kind_of(item, detail::path_of(options), detail::DecidedBy::inputs) == DeviceKind::gpu;
  });
  if (first != items.end()) {
    std::vector<Device> devices;
    for (const ConstTensorView& input : first->inputs) devices.push_back(input.device);
    require_nccl_between(communicator, devices, "NcclAllReduce");
  }
  // Order::any is not requested, so that values in host memory keep the order of the communicator (usually canonical)
  const std::optional<Order> order = is_canonical() ? std::optional(Order::canonical) : std::nullopt;
  all_reduce_in_packs(communicator, items, op, options, {.num_packs = num_packs_, .order = order});
}

}  // namespace lockstep
