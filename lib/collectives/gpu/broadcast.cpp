// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A broadcast on GPUs. NCCL broadcasts from the source, which is the GPU of the root's first replica, to all other
// GPUs. Short tensors are packed into buckets.

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/buckets.hpp"
#include "collectives/gpu/gpu_operation.hpp"
#include "collectives/gpu/operations.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

class GpuBroadcast final : public GpuOperation {
 public:
  GpuBroadcast(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
      : GpuOperation(descriptor, std::move(group), items), buckets_(buckets_of(items)) {}

 private:
  bool do_step(int step) override {
    if (step == 0) {
      buffers_ = prepare_all(buckets_.size(), [&](std::size_t stream, std::size_t bucket) {
        return buffer_for(stream, buckets_[bucket]);
      });
      for (std::size_t stream = 0; stream < streams(); ++stream) {
        for (std::size_t bucket = 0; is_source(stream) && bucket < buckets_.size(); ++bucket) load(stream, bucket);
      }
      if (group().leaders().size() > 1) spread();
      return false;
    }
    for (std::size_t stream = 0; stream < streams(); ++stream) deliver(stream);
    return true;
  }

  [[nodiscard]] int source() const { return group().leaders().of_rank(descriptor().root); }
  [[nodiscard]] bool is_source(std::size_t stream) const { return group().leader_of_stream(stream) == source(); }
  [[nodiscard]] static std::size_t bytes_of(const Bucket& bucket) {
    return static_cast<std::size_t>(bucket.count) * size_of(bucket.dtype);
  }
  [[nodiscard]] bool is_on(std::size_t stream, const HostItem& item) const {
    return item.input_places.front().device.index == device_of(stream);
  }

  /// The bucket's memory on the GPU of `stream`: the input, an output, or scratch memory.
  void* buffer_for(std::size_t stream, const Bucket& bucket) {
    const HostItem& item = items()[bucket.members.front().item];
    if (!bucket.is_packed()) {
      // NCCL broadcasts in place; at the source, it only reads the buffer
      if (is_source(stream) && is_on(stream, item)) return const_cast<void*>(item.inputs.front());
      if (const auto outputs = outputs_on(stream, item); !outputs.empty() && !is_source(stream)) return outputs.front();
    }
    return scratch(stream, bytes_of(bucket));
  }

  /// Copies the inputs of bucket number `index` to the bucket's buffer. `stream` is the stream of the source.
  void load(std::size_t stream, std::size_t index) {
    const Bucket& bucket = buckets_[index];
    void* const buffer = buffers_[stream][index];
    std::vector<cuda::CopyRegion> pieces;
    for (const BucketMember& member : bucket.members) {
      const HostItem& item = items()[member.item];
      const std::size_t bytes = static_cast<std::size_t>(item.count()) * size_of(item.dtype);
      void* const target = at(buffer, member.begin, bucket.dtype);
      if (target == item.inputs.front()) continue;
      if (is_on(stream, item)) {
        pieces.push_back({item.inputs.front(), target, bytes});
      } else {
        copy_across(group().stream_on(item.input_places.front().device.index), stream, item.inputs.front(), target,
                    bytes);
      }
    }
    copy(stream, pieces);
  }

  void copy_across(std::size_t from, std::size_t to, const void* input, void* target, std::size_t bytes) {
    order(to, from);
    group().streams()[from]->copy_to(*group().streams()[to], target, input, bytes);
    order(from, to);
  }

  void spread() {
    call_nccl_on_all(buckets_.size(), "ncclBroadcast",
                     [&](nccl::Api& api, nccl::Comm comm, std::size_t stream, std::size_t bucket) {
                       void* const buffer = buffers_[stream][bucket];
                       return api.broadcast(buffer, buffer, bytes_of(buckets_[bucket]), DType::u8, source(), comm,
                                            cuda_stream(stream));
                     });
  }

  void deliver(std::size_t stream) {
    std::vector<cuda::CopyRegion> pieces;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      for (const BucketMember& member : buckets_[bucket].members) {
        const HostItem& item = items()[member.item];
        const void* const result = at(buffers_[stream][bucket], member.begin, item.dtype);
        for (void* const output : outputs_on(stream, item)) {
          if (output != result)
            pieces.push_back({result, output, static_cast<std::size_t>(item.count()) * size_of(item.dtype)});
        }
      }
    }
    copy(stream, pieces);
  }

  const std::vector<Bucket> buckets_;
  std::vector<std::vector<void*>> buffers_;  // by stream, by bucket
};

}  // namespace

std::shared_ptr<Operation> make_gpu_broadcast(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                              std::vector<HostItem> items) {
  return std::make_shared<GpuBroadcast>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
