// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of a communicator, as its ranks have negotiated them, and this rank's streams on them.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/topology.hpp"
#include "collectives/nccl/comms.hpp"
#include "device/cuda/streams.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A stream of the communicator on one GPU of this rank, apart from the replicas' own streams.
struct GpuStream {
  explicit GpuStream(int device) : handle(device) {}
  [[nodiscard]] int device() const noexcept { return handle.device(); }
  /// Starts to copy, on this GPU or between it and pinned memory. Throws Error(unavailable) when CUDA fails.
  void copy(void* target, const void* source, std::size_t bytes) const;
  /// As copy, from this GPU to that of `other`.
  void copy_to(const GpuStream& other, void* target, const void* source, std::size_t bytes) const;
  cuda::OwnedStream handle;
};

/// Negotiated in one epoch, for that epoch. Shared by operations. After the negotiation it changes only under the
/// engine's lock.
class GpuGroup {
 public:
  /// `descriptors` by replica. A child of fork() does not destroy it.
  [[nodiscard]] static std::shared_ptr<GpuGroup> make(std::uint64_t epoch,
                                                      std::span<const DeviceDescriptor> descriptors,
                                                      const ReplicaLayout& layout, int rank);

  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] const GpuDecision& decision() const noexcept { return decision_; }
  /// Switches to the path through host memory, because NCCL does not start.
  void fall_back(const std::string& why);
  /// A part of the operations' descriptors: differs between epochs and between paths.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Leaders& leaders() const noexcept { return leaders_; }
  /// CUDA's numbers of the local replicas' GPUs, by replica.
  [[nodiscard]] const std::vector<int>& devices() const noexcept { return devices_; }
  /// The leader whose GPU this rank's stream number `stream` is on.
  [[nodiscard]] int leader_of_stream(std::size_t stream) const {
    return leaders_.first(rank_) + static_cast<int>(stream);
  }
  /// One stream per GPU of this rank: first the `led_streams()` GPUs that it leads, then those where another rank is
  /// its proxy. Empty on the path through host memory.
  [[nodiscard]] std::span<const std::unique_ptr<GpuStream>> streams() const noexcept { return streams_; }
  [[nodiscard]] std::size_t led_streams() const noexcept { return led_streams_; }
  /// Index of `replica` in the lists of an item: first the local replicas, then those of this rank's proxy clients,
  /// client by client.
  [[nodiscard]] std::size_t place_of(int replica) const;
  /// Index of the stream on CUDA's `device`.
  [[nodiscard]] std::size_t stream_on(int device) const;
  /// Null without NCCL, and on a rank that does not lead a GPU.
  [[nodiscard]] const std::shared_ptr<NcclComms>& comms() const noexcept { return comms_; }

  /// Work on the streams does not finish: the destructor is not to wait for it.
  void mark_leaked() noexcept { is_leaked_ = true; }

  /// Throws Error(invalid_argument) if a call's tensors are on other GPUs than the replicas were in the negotiation.
  void require_places(const Call& call, std::span<const HostItem> items) const;

 private:
  GpuGroup(std::uint64_t epoch, std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout, int rank);

  std::uint64_t epoch_;
  ReplicaLayout layout_;
  int rank_;
  GpuDecision decision_;
  Leaders leaders_;
  std::vector<int> devices_;           // of the local replicas
  std::vector<int> proxied_replicas_;  // of this rank's proxy clients
  std::vector<std::unique_ptr<GpuStream>> streams_;
  std::size_t led_streams_ = 0;
  std::shared_ptr<NcclComms> comms_;
  bool is_leaked_ = false;
};

/// The local replicas' devices according to the tensors of a checked call; empty for a broadcast, whose tensors do not
/// tell them.
[[nodiscard]] std::vector<Device> replica_devices(OperationKind kind, std::span<const HostItem> items);

}  // namespace lockstep::detail
