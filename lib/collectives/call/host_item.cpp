// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/host_item.hpp"

#include <algorithm>

namespace lockstep::detail {

std::vector<HostItem> without_outputs(std::vector<HostItem> items) {
  for (HostItem& item : items) item.outputs.clear();
  return items;
}

ElementRange HostItem::part_of(const Traits& kind, int replica, int replicas) const {
  return {first_of_part(kind, replica, replicas), first_of_part(kind, replica + 1, replicas)};
}

std::int64_t HostItem::first_of_part(const Traits& kind, int replica, int replicas) const {
  if (kind.gathers()) return part_begin(replica);
  if (kind.scatters()) return input_parts.front()[static_cast<std::size_t>(replica)] * row_elements;
  return count() / replicas * replica;
}

}  // namespace lockstep::detail
