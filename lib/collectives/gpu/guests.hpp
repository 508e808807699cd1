// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What an operation on GPUs does where ranks share some.
//
// 1. A guest copies its inputs to page-locked memory and sends them to the leader. 2. The leader copies them to its
// GPU, where they and room for the guest's results count as inputs and outputs of its own while the operation works. 3.
// It copies the results to page-locked memory and sends them. 4. The guest copies them to where they are wanted. That
// is once the guest's inputs and once its results, each twice over the GPU's link and once between the ranks. Nobody
// waits in CUDA.

#pragma once

#include "collectives/gpu/hosting.hpp"
#include "collectives/gpu/visit.hpp"

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace lockstep::detail {

/// This rank's parts, as a guest and for its guests; a rank may have both, on different GPUs. None where no GPU is
/// shared. Driven under the engine's lock; `group` outlives it.
class Guests {
 public:
  /// Throws Error(unavailable) when memory or CUDA fails.
  Guests(const Descriptor& descriptor, const GpuGroup& group, std::span<const HostItem> items);

  void start(Transport& transport);
  /// As a guest: moves on. Whether the messages are over and what is left is on the lanes.
  [[nodiscard]] bool advance_visits(Transport& transport);
  /// For this rank's guests: whether all that they give is among `items`, at GpuGroup::place_of.
  [[nodiscard]] bool have_come(Transport& transport, std::vector<HostItem>& items, const TakeScratch& scratch);
  /// When the results are on the lanes: whether the guests have theirs.
  [[nodiscard]] bool have_gone(Transport& transport);
  /// What was on the lanes has ended: memory that no message may touch any more is free.
  void settle() noexcept;

 private:
  std::deque<Visit> visits_;
  std::deque<Hosting> hostings_;
  bool have_come_ = false;
  bool is_fetched_ = false;
};

}  // namespace lockstep::detail
