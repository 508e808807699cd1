// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of a communicator, as the ranks have settled them.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/leaders.hpp"
#include "collectives/gpu/route.hpp"
#include "collectives/nccl/comms.hpp"
#include "device/cuda/streams.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One GPU of this rank: a stream of the communicator's, beside those of the replicas.
struct Lane {
  explicit Lane(int device) : stream(device) {}
  [[nodiscard]] int device() const noexcept { return stream.device(); }
  /// Starts to copy, on this GPU or between it and page-locked memory. Throws Error(unavailable) when CUDA fails.
  void copy(void* target, const void* source, std::size_t bytes) const;
  /// As copy, from this GPU to that of `lane`.
  void copy_to(const Lane& lane, void* target, const void* source, std::size_t bytes) const;
  cuda::OwnedStream stream;
};

/// Settled in one epoch, for that epoch. Operations share it. It changes only under the engine's lock, once it is
/// settled.
class GpuGroup {
 public:
  /// `claims` by replica. A child of fork() ends nothing of it.
  [[nodiscard]] static std::shared_ptr<GpuGroup> make(std::uint64_t epoch, std::span<const GpuClaim> claims,
                                                      const ReplicaLayout& layout, int rank);

  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] const GpuDecision& decision() const noexcept { return decision_; }
  /// NCCL does not start: the hosts do it.
  void fall_back(const std::string& why);
  /// For the descriptor: groups of other epochs or routes differ in it.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Leaders& leaders() const noexcept { return leaders_; }
  /// The numbers of the GPUs that the local replicas are on.
  [[nodiscard]] const std::vector<int>& devices() const noexcept { return devices_; }
  /// The leader that this rank's lane number `lane` is.
  [[nodiscard]] int leader_of_lane(std::size_t lane) const { return leaders_.first(rank_) + static_cast<int>(lane); }
  /// This rank's GPUs: the first `led_lanes()` are those that it leads, on the others it is a guest. None where the
  /// hosts do everything.
  [[nodiscard]] std::span<const std::unique_ptr<Lane>> lanes() const noexcept { return lanes_; }
  [[nodiscard]] std::size_t led_lanes() const noexcept { return led_lanes_; }
  /// Where `replica` stands in the lists of an item: the local ones first, then those of the guests on GPUs that this
  /// rank leads, guest by guest.
  [[nodiscard]] std::size_t place_of(int replica) const;
  /// The lane on CUDA's `device`.
  [[nodiscard]] std::size_t lane_on(int device) const;
  /// Null without NCCL, and on a rank that leads no GPU.
  [[nodiscard]] const std::shared_ptr<NcclComms>& comms() const noexcept { return comms_; }

  /// Something on its streams does not end: nobody waits for it.
  void keep_for_ever() noexcept { is_kept_ = true; }

  /// Throws Error(invalid_argument) where a call's tensors lie elsewhere than the replicas did when this was settled.
  void require_places(const Call& call, std::span<const HostItem> items) const;

 private:
  GpuGroup(std::uint64_t epoch, std::span<const GpuClaim> claims, const ReplicaLayout& layout, int rank);

  std::uint64_t epoch_;
  ReplicaLayout layout_;
  int rank_;
  GpuDecision decision_;
  Leaders leaders_;
  std::vector<int> devices_;         // of the local replicas
  std::vector<int> guest_replicas_;  // on GPUs that this rank leads
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t led_lanes_ = 0;
  std::shared_ptr<NcclComms> comms_;
  bool is_kept_ = false;
};

/// Where the local replicas are by the tensors of a checked call; none where the call does not say so: a broadcast.
[[nodiscard]] std::vector<Device> replica_devices(OperationKind kind, std::span<const HostItem> items);

}  // namespace lockstep::detail
