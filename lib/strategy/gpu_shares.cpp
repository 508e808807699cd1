// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "strategy/gpu_shares.hpp"

#include "base/check.hpp"
#include "collectives/internal_call.hpp"
#include "device/cuda/backend.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t takes_none = -1;  // a rank that takes no share sends this instead of its number of GPUs

bool have_common(const std::vector<GpuId>& a, const std::vector<GpuId>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&b](const GpuId& id) { return std::find(b.begin(), b.end(), id) != b.end(); });
}

/// The ranks that see the same GPUs as `rank`, including `rank`. If these ranks cannot share the GPUs, returns an empty
/// list and stores the reason in `why_not`.
std::vector<std::size_t> sharers_of(std::size_t rank, std::span<const VisibleGpus> ranks, WhenCrowded crowded,
                                    std::string& why_not) {
  const std::vector<GpuId>& mine = ranks[rank].ids;
  std::vector<std::size_t> sharers;
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    if (!ranks[other].takes_share) continue;
    if (ranks[other].ids == mine) {
      sharers.push_back(other);
    } else if (have_common(ranks[other].ids, mine)) {
      why_not = fmt::format("ranks {} and {} see some of the same GPUs, but not all of them in the same order",
                            std::min(rank, other), std::max(rank, other));
      return {};
    }
  }
  if (mine.empty()) {
    why_not = fmt::format("rank {} sees no GPU", rank);
  } else if (crowded == WhenCrowded::none_has_any && sharers.size() > mine.size()) {
    why_not =
        fmt::format("{} ranks (rank {} is the lowest) see the same {}, so there is less than one GPU for each",
                    sharers.size(), sharers.front(), mine.size() == 1 ? "GPU" : fmt::format("{} GPUs", mine.size()));
  }
  return why_not.empty() ? sharers : std::vector<std::size_t>();
}

VisibleGpus visible_here(bool takes_share) {
  VisibleGpus visible{takes_share, {}};
  if (!takes_share) return visible;
  for (const auto& gpu : detail::cuda::Backend::of_this_process().found().devices) visible.ids.push_back(gpu.uuid);
  return visible;
}

/// One input for each local replica: `rows` for the first replica, `none` for all others.
std::vector<ConstTensorView> of_first_replica(const ConstTensorView& rows, const ConstTensorView& none, int replicas) {
  std::vector<ConstTensorView> inputs(static_cast<std::size_t>(replicas), none);
  inputs.front() = rows;
  return inputs;
}

std::vector<VisibleGpus> exchange(Communicator& communicator, const VisibleGpus& mine) {
  const ReplicaLayout& layout = communicator.layout();
  const ReduceOptions how = detail::internal_call("the choice of GPUs");
  const std::int64_t count = mine.takes_share ? static_cast<std::int64_t>(mine.ids.size()) : takes_none;
  const std::vector<ConstTensorView> counted(static_cast<std::size_t>(communicator.local_replicas()),
                                             view_of(std::span(&count, 1)));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(layout.replicas()));
  const TensorView counts_view = view_of(std::span(counts));
  const Item count_item{counted, std::span(&counts_view, 1)};
  communicator.all_gather(std::span(&count_item, 1), how);

  std::vector<VisibleGpus> ranks(static_cast<std::size_t>(communicator.size()));
  std::vector<std::int64_t> rows(counts.size(), 0);
  std::int64_t total = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto first = static_cast<std::size_t>(layout.first(rank));
    ranks[static_cast<std::size_t>(rank)].takes_share = counts[first] != takes_none;
    rows[first] = std::max<std::int64_t>(counts[first], 0);
    total += rows[first];
  }
  if (total == 0) return ranks;
  std::vector<GpuId> all(static_cast<std::size_t>(total));
  constexpr std::int64_t width = std::tuple_size_v<GpuId>;
  const std::vector<ConstTensorView> inputs =
      of_first_replica({mine.ids.data(), DType::u8, Shape{static_cast<std::int64_t>(mine.ids.size()), width}},
                       {nullptr, DType::u8, Shape{0, width}}, communicator.local_replicas());
  const TensorView output{all.data(), DType::u8, Shape{total, width}, {}};
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_gather_v(std::span(&item, 1), rows, how);
  auto next = all.begin();
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto end = next + rows[static_cast<std::size_t>(layout.first(rank))];
    ranks[static_cast<std::size_t>(rank)].ids.assign(next, end);
    next = end;
  }
  return ranks;
}

}  // namespace

GpuShares shares_of_gpus(std::span<const VisibleGpus> ranks, WhenCrowded crowded) {
  GpuShares shares;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    GpuShare& share = shares.of_rank.emplace_back();
    if (!ranks[rank].takes_share) continue;
    const std::vector<std::size_t> sharers = sharers_of(rank, ranks, crowded, shares.why_not);
    if (sharers.empty()) {
      shares.of_rank.clear();
      return shares;
    }
    const std::size_t place =
        static_cast<std::size_t>(std::find(sharers.begin(), sharers.end(), rank) - sharers.begin());
    const std::size_t gpus = ranks[rank].ids.size();
    const std::size_t first = place * gpus / sharers.size();
    share.first = static_cast<int>(first);
    share.count = std::max(static_cast<int>((place + 1) * gpus / sharers.size() - first), 1);
  }
  return shares;
}

GpuShares agreed_shares_of_gpus(Communicator& communicator, bool takes_share, WhenCrowded crowded) {
  return shares_of_gpus(exchange(communicator, visible_here(takes_share)), crowded);
}

std::vector<Device> spread_over(const GpuShare& share, int replicas) {
  const int gpus = std::min(share.count, replicas);
  std::vector<Device> devices;
  for (int i = 0; i < replicas; ++i) {
    Device device{DeviceKind::gpu, share.first + i * gpus / replicas};
    if (i > 0 && devices.back().index == device.index) device.logical = devices.back().logical + 1;
    devices.push_back(device);
  }
  return devices;
}

std::vector<Device> gpus_of_replicas(const Communicator& communicator, int replicas) {
  Communicator ranks(communicator);
  if (replicas < 1) {
    detail::propagate(communicator, [&] {
      detail::throw_error(Code::invalid_argument, "gpus_of_replicas: replicas is {}; it must be at least 1", replicas);
    });
  }
  const GpuShares shares = agreed_shares_of_gpus(ranks, true, WhenCrowded::neighbours_share_one);
  if (shares.of_rank.empty()) {
    detail::throw_error(Code::unavailable, "gpus_of_replicas: {} (on rank {}: {})", shares.why_not, ranks.rank(),
                        gpu_status());
  }
  return spread_over(shares.of_rank[static_cast<std::size_t>(ranks.rank())], replicas);
}

}  // namespace lockstep
