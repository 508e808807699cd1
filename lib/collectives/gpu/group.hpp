// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The negotiated GPUs of a communicator, and the streams on the GPUs of this rank.

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

/// A stream of the communicator on one GPU of this rank, separate from the streams of the replicas.
struct GpuStream {
  explicit GpuStream(int device) : handle(device, cuda::Priority::greatest) {}
  [[nodiscard]] int device() const noexcept { return handle.device(); }
  /// Starts a copy within this GPU's memory, or between this GPU and pinned memory. Throws Error(unavailable) if CUDA
  /// fails.
  void copy(void* target, const void* source, std::size_t bytes) const;
  /// Starts a copy from this GPU to the GPU of `other`. Throws Error(unavailable) if CUDA fails.
  void copy_to(const GpuStream& other, void* target, const void* source, std::size_t bytes) const;
  cuda::OwnedStream handle;
};

/// The GPUs of a communicator in one epoch, shared by operations. After the negotiation, changed only under the
/// engine's lock.
class GpuGroup {
 public:
  /// `descriptors` has one entry per replica, in id order. A child process of fork() does not destroy the group.
  [[nodiscard]] static std::shared_ptr<GpuGroup> make(std::uint64_t epoch,
                                                      std::span<const DeviceDescriptor> descriptors,
                                                      const ReplicaLayout& layout, int rank);

  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] const GpuDecision& decision() const noexcept { return decision_; }
  /// Switches to GpuPath::host if NCCL does not start; `why` is the reason.
  void fall_back(const std::string& why);
  /// A part of the descriptor of each operation. Differs between epochs and between paths.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Leaders& leaders() const noexcept { return leaders_; }
  /// CUDA's numbers of the local replicas' GPUs, by replica.
  [[nodiscard]] const std::vector<int>& devices() const noexcept { return devices_; }
  /// Index in `leaders()` of the GPU of stream number `stream`, which is less than `led_streams()`.
  [[nodiscard]] int leader_of_stream(std::size_t stream) const {
    return leaders_.first(rank_) + static_cast<int>(stream);
  }
  /// One stream per GPU of this rank. The first `led_streams()` streams are on GPUs that this rank leads; the others
  /// are on GPUs on which another rank is the proxy of this rank. Empty for GpuPath::host.
  [[nodiscard]] std::span<const std::unique_ptr<GpuStream>> streams() const noexcept { return streams_; }
  [[nodiscard]] std::size_t led_streams() const noexcept { return led_streams_; }
  /// Index of `replica` in the lists of a HostItem. The lists contain the local replicas first, and then the replicas
  /// of this rank's proxy clients, client by client.
  [[nodiscard]] std::size_t place_of(int replica) const;
  /// Index in `streams()` of the stream on the GPU with CUDA's number `device`.
  [[nodiscard]] std::size_t stream_on(int device) const;
  /// NCCL's communicators on this rank; null if the path is not GpuPath::nccl, or if this rank does not lead a GPU.
  [[nodiscard]] const std::shared_ptr<NcclComms>& comms() const noexcept { return comms_; }

  /// Called if work on the streams does not finish. The group is then leaked: its destructor would wait for the work.
  void mark_leaked() noexcept { is_leaked_ = true; }

  /// Throws Error(invalid_argument) if a tensor of `call` is not on the GPU that its replica had in the negotiation.
  void require_places(const Call& call, std::span<const HostItem> items) const;

 private:
  GpuGroup(std::uint64_t epoch, std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout, int rank);

  std::uint64_t epoch_;
  ReplicaLayout layout_;
  int rank_;
  GpuDecision decision_;
  Leaders leaders_;
  std::vector<int> devices_;           // CUDA's numbers, by local replica
  std::vector<int> proxied_replicas_;  // replicas of this rank's proxy clients
  std::vector<std::unique_ptr<GpuStream>> streams_;
  std::size_t led_streams_ = 0;
  std::shared_ptr<NcclComms> comms_;
  bool is_leaked_ = false;
};

/// The devices of the local replicas, taken from the tensors of a checked call. Empty if there are no items, and for a
/// broadcast, in which no tensor belongs to a single replica.
[[nodiscard]] std::vector<Device> replica_devices(OperationKind kind, std::span<const HostItem> items);

}  // namespace lockstep::detail
