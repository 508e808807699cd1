// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An operation whose work is on GPUs: steps that are put on this rank's streams one after the other, each when NCCL has
// accepted the calls of the step before. It is done when all streams have finished; no thread waits in CUDA. If ranks
// share GPUs, the steps begin when the inputs of this rank's proxy clients are there, and a rank takes steps only on
// the GPUs that it leads. The ranks of an all_to_all_v agree on their rows first.

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

/// The rows of an all_to_all_v on GPUs. Each rank knows only those of its own replicas: all ranks agree on them as on
/// hosts, and proxy clients send theirs to their proxies, which move the data. No data moves before that. Driven under
/// the engine's lock.
class UnevenRows {
 public:
  /// Both outlive it, and `items` stay where they are.
  UnevenRows(const GpuGroup& group, std::vector<HostItem>& items);

  void start(Transport& transport, Workspace& workspace);
  /// Makes progress without waiting; whether it is over. Then each item has the parts of this rank's proxy clients
  /// after those of the local replicas, by GpuGroup::place_of; or there is a failure.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace);
  /// Set if senders and receivers name different rows: the same on every rank. Else null.
  [[nodiscard]] const Failure* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] std::vector<int> awaited_ranks() const { return transfers_.awaited_ranks(); }
  /// Receives that are still pending belong to this epoch: they cannot take messages of the next.
  void abandon(Transport& transport) noexcept { transfers_.abandon(transport); }

 private:
  [[nodiscard]] std::size_t message_bytes(const ProxiedRank& client) const;
  void send_rows(Transport& transport, Workspace& workspace, const ProxiedRank& client);
  void read_rows(const ProxiedRank& client, const std::byte* next);

  const GpuGroup& group_;
  std::vector<HostItem>& items_;
  RowAgreement agreement_;
  Transfers transfers_;
  std::vector<const std::byte*> received_;  // by proxied rank, as in Leaders; null if another rank is the proxy
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
  /// Aborts NCCL, which is started again in the next epoch. Leaks the memory of work that does not finish soon after.
  bool abandon(Transport& transport) noexcept final;
  bool survives_faults() const noexcept final { return true; }

 protected:
  /// The operation begins after all work that is on the streams of the items' devices now.
  GpuOperation(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items);

  [[nodiscard]] const GpuGroup& group() const noexcept { return *group_; }
  [[nodiscard]] const std::vector<HostItem>& items() const noexcept { return items_; }
  /// Number of streams that take steps: one for each GPU that this rank leads. A `stream` below is one of them.
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
  /// The place in each item of `replica`, one that is here or local.
  [[nodiscard]] std::size_t place_of(int replica) const { return group_->place_of(replica); }
  [[nodiscard]] const void* input_of(const HostItem& item, int replica) const;
  /// The output of `replica`, in an operation that gives each replica an output of its own.
  [[nodiscard]] void* output_of(const HostItem& item, int replica) const;
  /// The outputs of `item` that are on the GPU of `stream`.
  [[nodiscard]] std::vector<void*> outputs_on(std::size_t stream, const HostItem& item) const;

  /// Memory on the GPU of `stream` that lives as long as the operation. Throws Error(unavailable) when out of memory.
  [[nodiscard]] void* scratch(std::size_t stream, std::size_t bytes);
  void copy(std::size_t stream, std::span<const cuda::CopyRegion> pieces);
  /// Work that is put on stream `later` from now on waits for the work that is on `earlier`.
  void order(std::size_t earlier, std::size_t later);

  /// One bucket on one GPU: where NCCL reads it and where it writes its result.
  struct Run {
    const void* source = nullptr;
    void* target = nullptr;
  };
  /// `prepare(stream, bucket)` of every stream and every one of `buckets` buckets, by stream, by bucket.
  template <class Prepare>
  [[nodiscard]] auto prepare_all(std::size_t buckets, const Prepare& prepare) const {
    std::vector<std::vector<decltype(prepare(buckets, buckets))>> prepared(streams());
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) prepared[stream].push_back(prepare(stream, bucket));
    }
    return prepared;
  }
  /// Makes `call(api, comm, stream, bucket)`, NCCL's function `name`, for every bucket on every stream in one group.
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
  /// Puts step number `step` on the streams; whether it is the last one.
  [[nodiscard]] virtual bool do_step(int step) = 0;

  [[nodiscard]] bool nccl_is_ready() const { return group_->comms() == nullptr || group_->comms()->are_ready(); }
  /// Marks the end of the operation on all streams; the replicas' streams wait for it.
  void close();
  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] bool ends_soon() noexcept;

  std::shared_ptr<GpuGroup> group_;  // outlives the scratch memory, which is ordered with its streams
  std::vector<HostItem> items_;      // with the inputs and outputs of proxy clients, once the inputs have arrived
  std::optional<UnevenRows> rows_;   // in an all_to_all_v: agreed on before any data moves
  std::optional<Proxies> proxies_;   // made when the rows are known
  // events by logical device: inputs are ready and outputs are free
  std::map<Device, std::unique_ptr<cuda::OwnedEvent>> ready_;
  std::vector<cuda::StreamBlock> scratch_;
  std::vector<std::unique_ptr<cuda::OwnedEvent>> ends_;  // by stream
  int step_ = 0;
  bool is_started_ = false;
  bool is_last_step_done_;
};

}  // namespace lockstep::detail
