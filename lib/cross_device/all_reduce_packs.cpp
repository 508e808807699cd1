// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/all_reduce_packs.hpp"

#include "base/check.hpp"
#include "collectives/staged_items.hpp"

#include <lockstep/cross_device/packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

std::int64_t elements_of(const Item& item) { return item.inputs.front().element_count(); }

/// The numbers of items in packs of a given size in bytes, from the last item to the first: gradients of the last
/// layers are there first.
std::vector<std::size_t> packs_by_size(std::span<const Item> items, std::int64_t bytes_per_pack) {
  std::vector<std::int64_t> bytes;
  for (const Item& item : items) bytes.push_back(static_cast<std::int64_t>(item.inputs.front().byte_count()));
  std::reverse(bytes.begin(), bytes.end());
  std::vector<std::size_t> counts;
  for (const auto pack : group_by_size(bytes, bytes_per_pack)) counts.push_back(pack.size());
  std::reverse(counts.begin(), counts.end());
  return counts;
}

/// The numbers of items in `num_packs` packs, each of which is closed when it has its share of all elements; the last
/// takes the rest.
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

/// The numbers of items in each pack.
std::vector<std::size_t> pack_sizes(std::span<const Item> items, const CommunicationOptions& options, int num_packs) {
  if (options.bytes_per_pack > 0) return packs_by_size(items, options.bytes_per_pack);
  if (num_packs > 1) return packs_by_number(items, num_packs);
  return num_packs == 1 ? std::vector{items.size()} : std::vector<std::size_t>(items.size(), 1);
}

}  // namespace

int checked_num_packs(int num_packs, std::string_view who) {
  if (num_packs >= 0) return num_packs;
  detail::throw_error(Code::invalid_argument, "{}: num_packs is {}; it must be at least 0 (0: a pack for each value)",
                      who, num_packs);
}

void all_reduce_in_packs(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                         const CommunicationOptions& options, const PackOptions& packs) {
  const std::vector<std::size_t> counts = pack_sizes(items, options, packs.num_packs);
  const ReduceOptions how{.order = packs.order, .name = {}, .fail_after = options.deadline()};
  std::size_t end = items.size();
  for (std::size_t pack = counts.size(); pack-- > 0;) {
    end -= counts[pack];
    detail::with_staged(items.subspan(end, counts[pack]), {.route = detail::route_of(options)},
                        [&](std::span<const Item> staged) { communicator.all_reduce(staged, op, how); });
  }
}

}  // namespace lockstep
