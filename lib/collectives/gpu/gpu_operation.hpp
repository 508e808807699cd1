// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An operation whose work is on GPUs: steps that are put on this rank's lanes one after the other, each when NCCL has
// taken in the one before. It is done when all lanes have come to the end; nobody waits in CUDA. Where ranks share GPUs
// the steps begin when the guests' inputs are there, and a rank has steps on the GPUs that it leads alone. The ranks of
// an all_to_all_v agree on their rows before all that.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"
#include "collectives/gpu/guests.hpp"
#include "collectives/gpu/uneven_rows.hpp"
#include "kernels/reduce.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::detail {

class GpuOperation : public Operation, private StreamWork {
 public:
  void start(Transport& transport, Workspace& workspace) final;
  bool advance(Transport& transport, Workspace& workspace) final;
  const StreamWork* on_streams() const noexcept final { return ends_.empty() ? nullptr : this; }
  void hold_back(void* stream) const final;
  const Failure* failure() const noexcept final { return rows_ ? rows_->failure() : nullptr; }
  std::vector<int> awaited_ranks() const final { return guests_ ? std::vector<int>{} : rows_->awaited_ranks(); }
  std::string_view awaited() const final { return "the GPUs have not done their part"; }
  /// Aborts NCCL, which is then started anew in the next epoch. What has not ended soon after keeps its memory.
  bool abandon(Transport& transport) noexcept final;
  bool survives_faults() const noexcept final { return true; }

 protected:
  /// What is on the streams of the items' devices now comes before the operation.
  GpuOperation(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items);

  [[nodiscard]] const GpuGroup& group() const noexcept { return *group_; }
  [[nodiscard]] const std::vector<HostItem>& items() const noexcept { return items_; }
  /// Those that the steps are put on: of the GPUs that this rank leads.
  [[nodiscard]] std::size_t lanes() const noexcept { return group_->led_lanes(); }
  [[nodiscard]] cuda::Stream stream_of(std::size_t lane) const { return group_->lanes()[lane]->stream.get(); }
  [[nodiscard]] int device_of(std::size_t lane) const { return group_->lanes()[lane]->device(); }
  [[nodiscard]] const Leader& leader_of(std::size_t lane) const {
    return group_->leaders()[group_->leader_of_lane(lane)];
  }

  /// Whether a lane leads for `replica`.
  [[nodiscard]] bool is_here(int replica) const {
    return group_->leaders()[group_->leaders().of(replica)].rank == group_->rank();
  }
  /// The place in each item of `replica`, one that is here or local.
  [[nodiscard]] std::size_t place_of(int replica) const { return group_->place_of(replica); }
  /// Its input.
  [[nodiscard]] const void* input_of(const HostItem& item, int replica) const;
  /// Its output where each has its own.
  [[nodiscard]] void* output_of(const HostItem& item, int replica) const;
  /// The outputs of `item` that lie on a lane.
  [[nodiscard]] std::vector<void*> outputs_on(std::size_t lane, const HostItem& item) const;

  /// Memory on a lane's GPU, as long as the operation is there. Throws Error(unavailable) where there is none left.
  [[nodiscard]] void* scratch(std::size_t lane, std::size_t bytes);
  /// kernels/reduce's `reduce` on a lane, of any number of inputs and outputs.
  void fold(std::size_t lane, const Fold& fold, std::int64_t count);
  void copy(std::size_t lane, std::span<const cuda::CopyPiece> pieces);
  /// What comes later on lane `later` waits for what is on `earlier`.
  void order(std::size_t earlier, std::size_t later);

 private:
  /// Puts step number `step` on the lanes; whether it is the last one.
  [[nodiscard]] virtual bool do_step(int step) = 0;

  [[nodiscard]] bool nccl_is_ready() const { return group_->comms() == nullptr || group_->comms()->are_ready(); }
  void fold_at_once(std::size_t lane, const Fold& fold, std::int64_t count);
  /// Marks the end on all lanes; the replicas' streams wait for it.
  void close();
  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] bool ends_soon() noexcept;

  std::shared_ptr<GpuGroup> group_;  // its lanes outlive what is taken on them
  std::vector<HostItem> items_;      // with what guests give and get, once they have come
  std::optional<UnevenRows> rows_;   // of an all_to_all_v: nothing is done before they are agreed on
  std::optional<Guests> guests_;     // from when the rows are known
  std::map<Device, std::unique_ptr<cuda::OwnedEvent>> ready_;  // by logical device: its inputs are there, outputs free
  std::vector<cuda::StreamBlock> scratch_;
  std::vector<std::unique_ptr<cuda::OwnedEvent>> ends_;  // by lane
  int step_ = 0;
  bool is_started_ = false;
  bool is_last_step_done_;
};

}  // namespace lockstep::detail
