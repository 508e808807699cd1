// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/broadcast.hpp"

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/bundles.hpp"
#include "collectives/gpu/gpu_operation.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

class GpuBroadcast final : public GpuOperation {
 public:
  GpuBroadcast(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
      : GpuOperation(descriptor, std::move(group), items), bundles_(bundles_of(items)) {}

 private:
  bool do_step(int step) override {
    if (step == 0) {
      buffers_.resize(lanes());
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        for (const Bundle& bundle : bundles_) buffers_[lane].push_back(buffer_for(lane, bundle));
      }
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        for (std::size_t bundle = 0; is_source(lane) && bundle < bundles_.size(); ++bundle) load(lane, bundle);
      }
      if (group().leaders().size() > 1) spread();
      return false;
    }
    for (std::size_t lane = 0; lane < lanes(); ++lane) deliver(lane);
    return true;
  }

  [[nodiscard]] int source() const { return group().leaders().of_rank(descriptor().root); }
  [[nodiscard]] bool is_source(std::size_t lane) const { return group().leader_of_lane(lane) == source(); }
  [[nodiscard]] static std::size_t bytes_of(const Bundle& bundle) {
    return static_cast<std::size_t>(bundle.count) * size_of(bundle.dtype);
  }
  [[nodiscard]] bool lies_on(std::size_t lane, const HostItem& item) const {
    return item.input_places.front().device.index == device_of(lane);
  }

  /// Where a lane has the bundle: the input, an output, or memory of its own.
  void* buffer_for(std::size_t lane, const Bundle& bundle) {
    const HostItem& item = items()[bundle.members.front().item];
    if (!bundle.is_packed()) {
      // the source is only read, also by NCCL, which it is in place for
      if (is_source(lane) && lies_on(lane, item)) return const_cast<void*>(item.inputs.front());
      if (const auto outputs = outputs_on(lane, item); !outputs.empty() && !is_source(lane)) return outputs.front();
    }
    return scratch(lane, bytes_of(bundle));
  }

  /// Brings the inputs to the source, `lane`.
  void load(std::size_t lane, std::size_t index) {
    const Bundle& bundle = bundles_[index];
    void* const buffer = buffers_[lane][index];
    std::vector<cuda::CopyPiece> pieces;
    for (const BundleMember& member : bundle.members) {
      const HostItem& item = items()[member.item];
      const std::size_t bytes = static_cast<std::size_t>(item.count()) * size_of(item.dtype);
      void* const target = at(buffer, member.begin, bundle.dtype);
      if (target == item.inputs.front()) continue;
      if (lies_on(lane, item)) {
        pieces.push_back({item.inputs.front(), target, bytes});
      } else {
        bring(group().lane_on(item.input_places.front().device.index), lane, item.inputs.front(), target, bytes);
      }
    }
    copy(lane, pieces);
  }

  void bring(std::size_t from, std::size_t to, const void* input, void* target, std::size_t bytes) {
    order(to, from);
    group().lanes()[from]->copy_to(*group().lanes()[to], target, input, bytes);
    order(from, to);
  }

  void spread() {
    const NcclComms& comms = *group().comms();
    NcclGroup calls(comms);
    for (std::size_t bundle = 0; bundle < bundles_.size(); ++bundle) {
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        void* const buffer = buffers_[lane][bundle];
        calls.add(comms.api().broadcast(buffer, buffer, bytes_of(bundles_[bundle]), DType::u8, source(), comms[lane],
                                        stream_of(lane)),
                  "ncclBroadcast");
      }
    }
    calls.end();
  }

  void deliver(std::size_t lane) {
    std::vector<cuda::CopyPiece> pieces;
    for (std::size_t bundle = 0; bundle < bundles_.size(); ++bundle) {
      for (const BundleMember& member : bundles_[bundle].members) {
        const HostItem& item = items()[member.item];
        const void* const result = at(buffers_[lane][bundle], member.begin, item.dtype);
        for (void* const output : outputs_on(lane, item)) {
          if (output != result)
            pieces.push_back({result, output, static_cast<std::size_t>(item.count()) * size_of(item.dtype)});
        }
      }
    }
    copy(lane, pieces);
  }

  const std::vector<Bundle> bundles_;
  std::vector<std::vector<void*>> buffers_;  // by lane, by bundle
};

}  // namespace

std::shared_ptr<Operation> make_gpu_broadcast(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                              std::vector<HostItem> items) {
  return std::make_shared<GpuBroadcast>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
