// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/all_gather.hpp"

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/bundles.hpp"
#include "collectives/gpu/gpu_operation.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

class NcclAllGather final : public GpuOperation {
 public:
  NcclAllGather(const Descriptor& descriptor, std::shared_ptr<GpuGroup> of, std::vector<HostItem> items)
      : GpuOperation(descriptor, std::move(of), items), bundles_(bundles_of(items)) {}

 private:
  /// What NCCL does with one bundle on one GPU.
  struct Run {
    const void* source = nullptr;
    void* target = nullptr;
  };

  bool do_step(int step) override {
    if (step == 0) {
      runs_.resize(lanes());
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        for (const Bundle& bundle : bundles_) runs_[lane].push_back({source_of(lane, bundle), target_of(lane, bundle)});
      }
      gather();
      return false;
    }
    for (std::size_t lane = 0; lane < lanes(); ++lane) deliver(lane);
    return true;
  }

  [[nodiscard]] std::int64_t replicas_each() const { return group().leaders().most_replicas(); }
  /// Whether a tensor is gathered from where it lies to where it is wanted.
  [[nodiscard]] bool is_straight(const Bundle& bundle) const { return replicas_each() == 1 && !bundle.is_packed(); }

  const void* source_of(std::size_t lane, const Bundle& bundle) {
    const std::vector<int>& replicas = leader_of(lane).replicas;
    if (is_straight(bundle)) return input_of(items()[bundle.members.front().item], replicas.front());
    void* const pack = scratch(lane, static_cast<std::size_t>(replicas_each() * bundle.count) * size_of(bundle.dtype));
    std::vector<cuda::CopyPiece> pieces;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      for (const BundleMember& member : bundle.members) {
        const HostItem& item = items()[member.item];
        const std::int64_t begin = static_cast<std::int64_t>(i) * bundle.count + member.begin;
        pieces.push_back({input_of(item, replicas[i]), at(pack, begin, bundle.dtype), bytes_of(item)});
      }
    }
    copy(lane, pieces);
    return pack;
  }

  void* target_of(std::size_t lane, const Bundle& bundle) {
    if (is_straight(bundle)) {
      const auto outputs = outputs_on(lane, items()[bundle.members.front().item]);
      if (!outputs.empty()) return outputs.front();
    }
    const std::int64_t count = bundle.count * group().layout().replicas();
    return scratch(lane, static_cast<std::size_t>(count) * size_of(bundle.dtype));
  }

  [[nodiscard]] static std::size_t bytes_of(const HostItem& item) {
    return static_cast<std::size_t>(item.count()) * size_of(item.dtype);
  }

  void gather() {
    const NcclComms& comms = *group().comms();
    NcclGroup calls(comms);
    for (std::size_t bundle = 0; bundle < bundles_.size(); ++bundle) {
      const auto bytes =
          static_cast<std::size_t>(replicas_each() * bundles_[bundle].count) * size_of(bundles_[bundle].dtype);
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        const Run& run = runs_[lane][bundle];
        calls.add(comms.api().all_gather(run.source, run.target, bytes, DType::u8, comms[lane], stream_of(lane)),
                  "ncclAllGather");
      }
    }
    calls.end();
  }

  void deliver(std::size_t lane) {
    std::vector<cuda::CopyPiece> pieces;
    for (std::size_t bundle = 0; bundle < bundles_.size(); ++bundle) {
      for (const BundleMember& member : bundles_[bundle].members) add_copies(lane, bundle, member, pieces);
    }
    copy(lane, pieces);
  }

  void add_copies(std::size_t lane, std::size_t index, const BundleMember& member,
                  std::vector<cuda::CopyPiece>& pieces) const {
    const Bundle& bundle = bundles_[index];
    const HostItem& item = items()[member.item];
    const void* const gathered = runs_[lane][index].target;
    std::int64_t place = 0;  // in what NCCL has gathered: leader by leader
    for (int leader = 0; leader < group().leaders().size(); ++leader) {
      for (const int replica : group().leaders()[leader].replicas) {
        const void* const part = at(gathered, place++ * bundle.count + member.begin, bundle.dtype);
        for (void* const output : outputs_on(lane, item)) {
          void* const target = at(output, item.part_begin(replica), item.dtype);
          if (target != part) pieces.push_back({part, target, bytes_of(item)});
        }
      }
    }
  }

  const std::vector<Bundle> bundles_;
  std::vector<std::vector<Run>> runs_;  // by lane, by bundle
};

}  // namespace

bool is_even(const Leaders& leaders) {
  for (int leader = 0; leader < leaders.size(); ++leader) {
    if (static_cast<int>(leaders[leader].replicas.size()) != leaders.most_replicas()) return false;
  }
  return leaders.size() > 1;
}

std::shared_ptr<Operation> make_nccl_all_gather(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                                std::vector<HostItem> items) {
  return std::make_shared<NcclAllGather>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
