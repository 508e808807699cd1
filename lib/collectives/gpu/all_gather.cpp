// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_gather on GPUs that all have the same number of replicas. NCCL gathers the inputs of the GPUs; short tensors
// are packed into buckets. A kernel on each GPU then copies the gathered parts to the outputs, unless they are already
// in place.

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/buckets.hpp"
#include "collectives/gpu/gpu_operation.hpp"
#include "collectives/gpu/operations.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

class NcclAllGather final : public GpuOperation {
 public:
  NcclAllGather(const Descriptor& descriptor, std::shared_ptr<GpuGroup> of, std::vector<HostItem> items)
      : GpuOperation(descriptor, std::move(of), items), buckets_(buckets_of(items)) {}

 private:
  bool do_step(int step) override {
    if (step == 0) {
      runs_ = prepare_all(buckets_.size(), [&](std::size_t stream, std::size_t bucket) {
        const void* const source = source_of(stream, buckets_[bucket]);
        return Run{source, target_of(stream, buckets_[bucket])};
      });
      gather();
      return false;
    }
    for (std::size_t stream = 0; stream < streams(); ++stream) deliver(stream);
    return true;
  }

  [[nodiscard]] std::int64_t replicas_each() const { return group().leaders().most_replicas(); }
  /// Whether NCCL reads the input of the bucket's tensor directly, and writes directly to an output.
  [[nodiscard]] bool is_straight(const Bucket& bucket) const { return replicas_each() == 1 && !bucket.is_packed(); }

  const void* source_of(std::size_t stream, const Bucket& bucket) {
    const std::vector<int>& replicas = leader_of(stream).replicas;
    if (is_straight(bucket)) return input_of(items()[bucket.members.front().item], replicas.front());
    void* const packed =
        scratch(stream, static_cast<std::size_t>(replicas_each() * bucket.count) * size_of(bucket.dtype));
    std::vector<cuda::CopyRegion> pieces;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      for (const BucketMember& member : bucket.members) {
        const HostItem& item = items()[member.item];
        const std::int64_t begin = static_cast<std::int64_t>(i) * bucket.count + member.begin;
        pieces.push_back({input_of(item, replicas[i]), at(packed, begin, bucket.dtype), bytes_of(item)});
      }
    }
    copy(stream, pieces);
    return packed;
  }

  void* target_of(std::size_t stream, const Bucket& bucket) {
    if (is_straight(bucket)) {
      const auto outputs = outputs_on(stream, items()[bucket.members.front().item]);
      if (!outputs.empty()) return outputs.front();
    }
    const std::int64_t count = bucket.count * group().layout().replicas();
    return scratch(stream, static_cast<std::size_t>(count) * size_of(bucket.dtype));
  }

  [[nodiscard]] static std::size_t bytes_of(const HostItem& item) {
    return static_cast<std::size_t>(item.count()) * size_of(item.dtype);
  }

  void gather() {
    call_nccl_on_all(
        buckets_.size(), "ncclAllGather", [&](nccl::Api& api, nccl::Comm comm, std::size_t stream, std::size_t index) {
          const Bucket& bucket = buckets_[index];
          const auto bytes = static_cast<std::size_t>(replicas_each() * bucket.count) * size_of(bucket.dtype);
          const Run& run = runs_[stream][index];
          return api.all_gather(run.source, run.target, bytes, DType::u8, comm, cuda_stream(stream));
        });
  }

  void deliver(std::size_t stream) {
    std::vector<cuda::CopyRegion> pieces;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      for (const BucketMember& member : buckets_[bucket].members) add_copies(stream, bucket, member, pieces);
    }
    copy(stream, pieces);
  }

  void add_copies(std::size_t stream, std::size_t index, const BucketMember& member,
                  std::vector<cuda::CopyRegion>& pieces) const {
    const Bucket& bucket = buckets_[index];
    const HostItem& item = items()[member.item];
    const void* const gathered = runs_[stream][index].target;
    std::int64_t place = 0;  // index of the replica in the gathered bucket, which is ordered by GPU
    for (int leader = 0; leader < group().leaders().size(); ++leader) {
      for (const int replica : group().leaders()[leader].replicas) {
        const void* const part = at(gathered, place++ * bucket.count + member.begin, bucket.dtype);
        for (void* const output : outputs_on(stream, item)) {
          void* const target = at(output, item.part_begin(replica), item.dtype);
          if (target != part) pieces.push_back({part, target, bytes_of(item)});
        }
      }
    }
  }

  const std::vector<Bucket> buckets_;
  std::vector<std::vector<Run>> runs_;  // by stream, by bucket
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
