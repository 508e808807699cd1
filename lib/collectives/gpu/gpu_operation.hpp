// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The base class of operations on GPUs. Such an operation consists of steps. A rank enqueues each step on the streams
// of the GPUs that it leads (see topology.hpp), as soon as NCCL has accepted the calls of the previous step. The
// operation is done when the work on all streams of the rank is complete; no thread blocks in CUDA. If ranks share a
// GPU, the first step begins when the inputs of this rank's proxy clients have arrived (see proxy.hpp). In an
// all_to_all_v, the ranks first compare the numbers of rows.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/engine/row_agreement.hpp"
#include "collectives/engine/transfers.hpp"
#include "collectives/gpu/group.hpp"
#include "collectives/gpu/proxy.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The numbers of rows that replicas send to each other in an all_to_all_v on GPUs. Each rank knows only the numbers of
/// its own replicas. All ranks compare the numbers by RowAgreement, as for tensors in host memory. In addition, each
/// proxy client sends its numbers to its proxy, which moves the data. No data moves before the comparison is over.
/// After construction, the object is used only under the engine's lock.
class UnevenRows {
 public:
  /// `group` and `items` must outlive this object, and the elements of `items` must keep their addresses.
  UnevenRows(const GpuGroup& group, std::vector<HostItem>& items);

  void start(Transport& transport, Workspace& workspace);
  /// Makes progress without waiting. Returns whether the comparison is over. If it is over without a failure, each item
  /// also contains the parts of this rank's proxy clients, at the indices of GpuGroup::place_of.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace);
  /// The error if a sender and a receiver name different numbers of rows; else null. All ranks get the same error.
  [[nodiscard]] const Failure* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] std::vector<int> awaited_ranks() const { return transfers_.awaited_ranks(); }
  /// Leaves pending transfers to the transport. A pending receive cannot match a message of the next epoch.
  void abandon(Transport& transport) noexcept { transfers_.abandon(transport); }

 private:
  [[nodiscard]] std::size_t message_bytes(const ProxiedRank& client) const;
  void send_rows(Transport& transport, Workspace& workspace, const ProxiedRank& client);
  void read_rows(const ProxiedRank& client, const std::byte* next);

  const GpuGroup& group_;
  std::vector<HostItem>& items_;
  RowAgreement agreement_;
  Transfers transfers_;
  std::vector<const std::byte*> received_;  // by index in Leaders::proxied_ranks; null if another rank is the proxy
  bool is_agreed_ = false;
  std::optional<Failure> failure_;
};

class GpuOperation : public Operation, private StreamWork {
 public:
  void start(Transport& transport, Workspace& workspace) final;
  bool advance(Transport& transport, Workspace& workspace) final;
  const StreamWork* on_streams() const noexcept final { return ends_.empty() ? nullptr : this; }
  void hold_back(void* stream) const final;
  const Failure* failure() const noexcept final { return rows_ ? rows_->failure() : nullptr; }
  std::vector<int> awaited_ranks() const final { return proxies_ ? std::vector<int>{} : rows_->awaited_ranks(); }
  std::string_view awaited() const final { return "work on the GPUs is not complete"; }
  /// Aborts NCCL; the next epoch starts NCCL again. If work on a GPU does not finish soon, its memory is leaked.
  bool abandon(Transport& transport) noexcept final;
  bool survives_faults() const noexcept final { return true; }

 protected:
  /// The operation begins after all work that is on the streams of the items' devices at the time of this call.
  GpuOperation(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items);

  [[nodiscard]] const GpuGroup& group() const noexcept { return *group_; }
  [[nodiscard]] const std::vector<HostItem>& items() const noexcept { return items_; }
  /// Number of streams on which steps run: one for each GPU that this rank leads. A `stream` below is an index of
  /// GpuGroup::streams, which lists these streams first.
  [[nodiscard]] std::size_t streams() const noexcept { return group_->led_streams(); }
  [[nodiscard]] cuda::Stream cuda_stream(std::size_t stream) const { return group_->streams()[stream]->handle.get(); }
  [[nodiscard]] int device_of(std::size_t stream) const { return group_->streams()[stream]->device(); }
  [[nodiscard]] const Leader& leader_of(std::size_t stream) const {
    return group_->leaders()[group_->leader_of_stream(stream)];
  }

  /// Whether this rank leads the GPU of `replica`.
  [[nodiscard]] bool is_here(int replica) const {
    return group_->leaders()[group_->leaders().of(replica)].rank == group_->rank();
  }
  /// Index of `replica`, which must be local or on a GPU that this rank leads, in the lists of a HostItem.
  [[nodiscard]] std::size_t place_of(int replica) const { return group_->place_of(replica); }
  [[nodiscard]] const void* input_of(const HostItem& item, int replica) const;
  /// The output of `replica`, in an operation in which each replica has a separate output.
  [[nodiscard]] void* output_of(const HostItem& item, int replica) const;
  /// The outputs of `item` that are on the GPU of `stream`.
  [[nodiscard]] std::vector<void*> outputs_on(std::size_t stream, const HostItem& item) const;

  /// Allocates memory on the GPU of `stream` for the life of the operation. Throws Error(unavailable) if out of memory.
  [[nodiscard]] void* scratch(std::size_t stream, std::size_t bytes);
  void copy(std::size_t stream, std::span<const cuda::CopyRegion> pieces);
  /// Makes later work on stream `later` wait for the work that is now on stream `earlier`.
  void order(std::size_t earlier, std::size_t later);

  /// The buffers of NCCL for one bucket on one GPU: NCCL reads `source` and writes its result to `target`.
  struct Run {
    const void* source = nullptr;
    void* target = nullptr;
  };
  /// Calls `prepare(stream, bucket)` for every stream and for each of `buckets` buckets. Returns the results by stream
  /// and bucket.
  template <class Prepare>
  [[nodiscard]] auto prepare_all(std::size_t buckets, const Prepare& prepare) const {
    std::vector<std::vector<decltype(prepare(buckets, buckets))>> prepared(streams());
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) prepared[stream].push_back(prepare(stream, bucket));
    }
    return prepared;
  }
  /// Runs `call(api, comm, stream, bucket)`, which calls NCCL's function `name`, for every bucket on every stream. All
  /// calls are in one NCCL group.
  template <class CallNccl>
  void call_nccl_on_all(std::size_t buckets, std::string_view name, const CallNccl& call) const {
    const NcclComms& comms = *group_->comms();
    NcclGroup calls(comms);
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      for (std::size_t stream = 0; stream < streams(); ++stream)
        calls.add(call(comms.api(), comms[stream], stream, bucket), name);
    }
    calls.end();
  }

 private:
  /// Enqueues step number `step` on the streams. Returns whether it is the last step.
  [[nodiscard]] virtual bool do_step(int step) = 0;

  [[nodiscard]] bool nccl_is_ready() const { return group_->comms() == nullptr || group_->comms()->are_ready(); }
  /// Records the end of the operation on each stream, and makes the replicas' streams wait for the end.
  void close();
  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] bool ends_soon() noexcept;

  std::shared_ptr<GpuGroup> group_;  // outlives scratch_, whose memory is freed in stream order on the group's streams
  std::vector<HostItem> items_;      // contain the inputs and outputs of proxy clients after these inputs have arrived
  std::optional<UnevenRows> rows_;   // only in an all_to_all_v
  std::optional<Proxies> proxies_;   // in an all_to_all_v, empty until the rows are compared
  // by logical device: the event after which the inputs on the device are ready and its outputs may be overwritten
  std::map<Device, std::unique_ptr<cuda::OwnedEvent>> ready_;
  std::vector<cuda::StreamBlock> scratch_;
  std::vector<std::unique_ptr<cuda::OwnedEvent>> ends_;  // by stream
  int step_ = 0;
  bool is_started_ = false;
  bool is_last_step_done_;
};

}  // namespace lockstep::detail
