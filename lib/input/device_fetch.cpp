// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/device_fetch.hpp"

#include "base/leak.hpp"
#include "base/log.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/streams.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

namespace lockstep::input {

namespace cuda = detail::cuda;

/// Memory of one GPU, allocated in the order of a stream that is used only for fetching. A freed block is reused only
/// after the replica's stream has completed all work that was queued when the block was freed.
class FetchMemory final : public MemoryResource {
 public:
  explicit FetchMemory(Device device)
      : device_(device), stream_(device.index), blocks_(cuda::stream_memory(device.index, stream_.get())) {}

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] cuda::Stream stream() const noexcept { return stream_.get(); }
  [[nodiscard]] bool is_idle() const { return cuda::is_idle(stream_.get(), device_.index); }

 private:
  void* do_allocate(std::size_t bytes) override { return blocks_->allocate(bytes); }
  void do_deallocate(void* block, std::size_t bytes) noexcept override {
    try {
      if (cuda::Backend::of_this_process().is_of_this_process())
        cuda::put_in_order(cuda::stream_of(device_), device_.index, stream_.get());
    } catch (const std::exception& error) {  // CUDA has failed, so no work is running on the device
      detail::log_warning("distributed dataset: memory of {} is freed without waiting for the stream of the device: {}",
                          to_string(device_), error.what());
    }
    blocks_->deallocate(block, bytes);
  }

  Device device_;
  cuda::OwnedStream stream_;
  std::shared_ptr<MemoryResource> blocks_;
};

namespace {

/// `tensor` itself if its memory is registered with CUDA, otherwise a copy in pinned memory.
Tensor reachable(const Tensor& tensor) {
  cuda::Api& api = cuda::Backend::of_this_process().api();
  cuda::PointerAttributes attributes;
  cuda::check(api, api.pointer_attributes(tensor.data(), attributes), "cudaPointerGetAttributes");
  if (attributes.kind != cuda::MemoryKind::unregistered) return tensor;
  Tensor result = Tensor::uninitialized(tensor.dtype(), tensor.shape(), pinned_memory_resource());
  result.copy_from(tensor.view());
  return result;
}

}  // namespace

DeviceFetch::DeviceFetch(const std::vector<Device>& devices) : devices_(devices) {
  for (const Device device : devices) {
    memory_.push_back(device.kind == DeviceKind::gpu ? std::make_shared<FetchMemory>(device) : nullptr);
  }
}

DeviceFetch::~DeviceFetch() {
  if (sources_.empty()) return;
  try {  // a copy has failed, and other copies may be pending
    wait();
  } catch (const std::exception& error) {
    detail::log_warning("distributed dataset: {}", error.what());
    detail::leak(new Leaves(std::move(sources_)));
  }
}

std::shared_ptr<MemoryResource> DeviceFetch::host_memory() const {
  const bool has_gpus =
      std::any_of(memory_.begin(), memory_.end(), [](const auto& memory) { return memory != nullptr; });
  return has_gpus ? recycling_memory(pinned_memory_resource()) : recycling_memory();
}

void DeviceFetch::start(Leaves& batch, const std::shared_ptr<FetchMemory>& memory) {
  const Device device = memory->device();
  const cuda::CurrentDevice current(device.index);
  cuda::Api& api = cuda::Backend::of_this_process().api();
  for (Tensor& leaf : batch) {
    Tensor there = Tensor::uninitialized(leaf.dtype(), leaf.shape(), memory, device);
    if (leaf.byte_count() != 0) {
      const Tensor& source = sources_.emplace_back(reachable(leaf));
      cuda::check(api, api.memcpy_async(there.data(), source.data(), source.byte_count(), memory->stream()),
                  "cudaMemcpyAsync");
    }
    leaf = std::move(there);
  }
}

void DeviceFetch::fetch(StepBatches& step) {
  const std::size_t count = std::min(step.size(), memory_.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (memory_[i] != nullptr) {
      start(step[i], memory_[i]);
    } else {
      for (Tensor& leaf : step[i]) detail::set_cpu(leaf, devices_[i]);
    }
  }
  wait();
  sources_.clear();
}

void DeviceFetch::wait() const {
  for (const auto& memory : memory_) {
    if (memory == nullptr) continue;
    cuda::wait_until([&] { return memory->is_idle(); }, "the copy of a batch to a device", memory->device());
  }
}

}  // namespace lockstep::input
