// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/bundles.hpp"

#include "schedule/partition.hpp"

#include <map>

namespace lockstep::detail {
namespace {

std::size_t bytes_of(DType dtype, std::int64_t count) { return static_cast<std::size_t>(count) * size_of(dtype); }

}  // namespace

std::vector<Bundle> bundles_of(std::span<const HostItem> items) {
  std::vector<Bundle> bundles;
  std::map<DType, std::size_t> open;  // the pack that takes the next short tensor
  for (std::size_t i = 0; i < items.size(); ++i) {
    const HostItem& item = items[i];
    if (item.count() == 0) continue;
    if (bytes_of(item.dtype, item.count()) >= short_bytes) {
      bundles.push_back({item.dtype, item.count(), {{i, 0}}});
      continue;
    }
    const auto [pack, is_new] = open.try_emplace(item.dtype, bundles.size());
    if (is_new) bundles.push_back({item.dtype, 0, {}});
    Bundle& bundle = bundles[pack->second];
    const std::int64_t begin = (bundle.count + grain_elements - 1) / grain_elements * grain_elements;
    bundle.members.push_back({i, begin});
    bundle.count = begin + item.count();
    if (bytes_of(bundle.dtype, bundle.count) >= pack_bytes) open.erase(pack);
  }
  return bundles;
}

std::vector<Bundle> single_bundles_of(std::span<const HostItem> items) {
  std::vector<Bundle> bundles;
  for (std::size_t i = 0; i < items.size(); ++i) bundles.push_back({items[i].dtype, items[i].count(), {{i, 0}}});
  return bundles;
}

}  // namespace lockstep::detail
