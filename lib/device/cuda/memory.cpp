// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/memory.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/memory_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

/// A std::bad_alloc whose text names the exhausted memory.
class MemoryUsedUp final : public std::bad_alloc {
 public:
  explicit MemoryUsedUp(const std::string& text) noexcept {
    std::copy_n(text.begin(), std::min(text.size(), text_.size() - 1), text_.begin());
  }
  [[nodiscard]] const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 96> text_{};  // not a std::string, because a copy of it might need memory
};

/// Checks `status`, the result of the allocation function `call`. On success, returns `block`. If `status` is
/// out_of_memory, clears CUDA's last error and throws MemoryUsedUp.
template <class Text>
void* taken(Api& api, Status status, void* block, const char* call, const Text& text_when_used_up) {
  if (status == Status::out_of_memory) {
    api.take_last_error();
    throw MemoryUsedUp(text_when_used_up());
  }
  check(api, status, call);
  return block;
}

void* take(std::size_t bytes, int device, Stream stream) {
  Api& api = Backend::of_this_process().api();
  const Pool pool = Backend::of_this_process().open_devices().pool(device);
  const CurrentDevice current(device);
  void* block = nullptr;
  const Status status = api.malloc_from_pool_async(block, std::max<std::size_t>(bytes, 1), pool, stream);
  return taken(api, status, block, "cudaMallocFromPoolAsync",
               [&] { return fmt::format("out of memory on gpu:{}: {} bytes requested", device, bytes); });
}

void give_back_block(void* block, int device, Stream stream) noexcept {
  give_back(device, "cudaFreeAsync", [&](Api& api) { return api.free_async(block, stream); });
}

class StreamMemory final : public MemoryResource {
 public:
  StreamMemory(int device, Stream stream) : device_(device), stream_(stream) {}

 private:
  void* do_allocate(std::size_t bytes) override {
    release_completed();
    return take(bytes, device_, stream_);
  }
  void do_deallocate(void* block, std::size_t) noexcept override { give_back_block(block, device_, stream_); }

  int device_;
  Stream stream_;
};

class PinnedMemory final : public MemoryResource {
 public:
  PinnedMemory(int device, std::size_t most_kept_bytes) : device_(device), most_kept_bytes_(most_kept_bytes) {}
  ~PinnedMemory() override {
    for (const auto& [bytes, blocks] : kept_) {
      for (void* const block : blocks) give_back_pinned(block, device_);
    }
  }

 private:
  /// The size class of `bytes`. Sizes are whole pages. From eight pages on, there are eight classes between a power of
  /// two and the next power of two, so that at most an eighth of a block is unused.
  static std::size_t class_of(std::size_t bytes) noexcept {
    constexpr std::size_t page = 4096;
    const std::size_t step = std::max(page, std::bit_floor(bytes) / 8);
    return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
  }

  void* do_allocate(std::size_t bytes) override {
    const std::size_t size = class_of(bytes);
    {
      const MutexLock lock(mutex_);
      std::vector<void*>& blocks = kept_[size];
      if (!blocks.empty()) {
        kept_bytes_ -= size;
        void* const block = blocks.back();
        blocks.pop_back();
        return block;
      }
    }
    return take_pinned(size, device_);
  }
  void do_deallocate(void* block, std::size_t bytes) noexcept override {
    const std::size_t size = class_of(bytes);
    try {
      const MutexLock lock(mutex_);
      if (kept_bytes_ + size <= most_kept_bytes_) {
        kept_[size].push_back(block);
        kept_bytes_ += size;
        return;
      }
    } catch (...) {  // no memory for a list entry: free the block instead
    }
    give_back_pinned(block, device_);
  }

  const int device_;
  const std::size_t most_kept_bytes_;
  Mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> kept_ LOCKSTEP_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

/// A copy that has timed out. The device may still access the host memory later, so this object registers the copy as a
/// user of this memory. The object keeps itself alive until the program frees the memory and the copy has completed.
class LateCopy final : public MemoryUser {
 public:
  static void watch(std::unique_ptr<OwnedEvent> end, Device device, MemoryBlock block) {
    const auto copy = std::make_shared<LateCopy>(std::move(end), device);
    auto use = std::make_unique<Use>(UsedMemory{copy, {block}});
    const MutexLock lock(copy->mutex_);
    copy->use_ = std::move(use);
  }

  LateCopy(std::unique_ptr<OwnedEvent> end, Device device) : end_(std::move(end)), device_(device) {}
  bool finish() noexcept override {
    const MutexLock lock(mutex_);
    try {
      if (!end_->is_done()) return false;
    } catch (const std::exception&) {  // a failed device accesses no memory
    }
    use_ = nullptr;
    return true;
  }
  std::string name() const override { return "a copy from or to " + to_string(device_); }

 private:
  struct Use {
    explicit Use(UsedMemory used) : memory(std::move(used)), registered(memory) {}
    UsedMemory memory;
    MemoryUse registered;
  };

  std::unique_ptr<OwnedEvent> end_;
  Device device_;
  Mutex mutex_;
  std::unique_ptr<Use> use_ LOCKSTEP_GUARDED_BY(mutex_);
};

MemoryKind kind_of(Api& api, const void* data) {
  PointerAttributes attributes;
  check(api, api.pointer_attributes(data, attributes), "cudaPointerGetAttributes");
  return attributes.kind;
}

/// Whether CUDA can access this host memory directly.
bool is_pinned(Api& api, const void* data) { return kind_of(api, data) != MemoryKind::unregistered; }

/// Throws Error(invalid_argument) if `device` cannot access `data`, which is the "source" or "target" (`role`) of a
/// copy.
void require_reach(const void* data, Device device, std::string_view role) {
  const std::string found = out_of_reach(data, device);
  if (found.empty()) return;
  throw_error(Code::invalid_argument, "copy: the {} is a view on {}, but its elements are {}", role, to_string(device),
              found);
}

/// Copies between `gpu` and pinned memory; `host` is the pinned address: `target` or `source`.
void copy_at_once(void* target, const void* source, std::size_t bytes, Device gpu, const void* host) {
  Api& api = Backend::of_this_process().api();
  const Stream stream = stream_of(gpu);
  auto end = std::make_unique<OwnedEvent>(gpu.index);
  check(api, api.memcpy_async(target, source, bytes, stream), "cudaMemcpyAsync");
  end->record(stream);
  try {
    wait_until([&] { return end->is_done(); }, "copy", gpu);
  } catch (const Error& error) {
    if (error.code() == Code::deadline_exceeded) LateCopy::watch(std::move(end), gpu, {host, bytes});
    throw;
  }
}

void copy_between_gpus(void* target, Device target_device, const void* source, Device source_device,
                       std::size_t bytes) {
  const Stream target_stream = stream_of(target_device);
  const Stream source_stream = stream_of(source_device);
  require_reach(source, source_device, "source");
  if (target_stream != source_stream) put_in_order(source_stream, source_device.index, target_stream);
  start_copy(target, target_device.index, source, source_device.index, bytes, target_stream);
  // later work on the source's stream may overwrite or free the source, so the source's stream waits for the copy
  if (target_stream != source_stream) put_in_order(target_stream, target_device.index, source_stream);
}

}  // namespace

StreamBlock::StreamBlock(std::size_t bytes, int device, Stream stream)
    : data_(take(bytes, device, stream)), bytes_(bytes), device_(device), stream_(stream) {}

StreamBlock::StreamBlock(StreamBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_),
      stream_(other.stream_) {}

StreamBlock& StreamBlock::operator=(StreamBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
  return *this;
}

StreamBlock::~StreamBlock() {
  if (data_ != nullptr) give_back_block(data_, device_, stream_);
}

void* take_pinned(std::size_t bytes, int device) {
  Api& api = Backend::of_this_process().api();
  const CurrentDevice current(device);
  void* block = nullptr;
  const Status status = api.malloc_host(block, bytes);
  return taken(api, status, block, "cudaHostAlloc",
               [&] { return fmt::format("cannot allocate {} bytes of pinned memory", bytes); });
}

void give_back_pinned(void* block, int device) noexcept {
  give_back(device, "cudaFreeHost", [&](Api& api) { return api.free_host(block); });
}

std::string out_of_reach(const void* data, Device device) {
  Api& api = Backend::of_this_process().api();
  PointerAttributes found;
  check(api, api.pointer_attributes(data, found), "cudaPointerGetAttributes");
  if (found.kind == MemoryKind::unregistered) return "in memory that is not registered with CUDA";
  if (found.kind == MemoryKind::device && found.device != device.index)
    return fmt::format("in memory of gpu:{}", found.device);
  return {};
}

std::shared_ptr<MemoryResource> stream_memory(int device, Stream stream) {
  return std::make_shared<StreamMemory>(device, stream);
}

std::shared_ptr<MemoryResource> pinned_memory(int device, std::size_t most_kept_bytes) {
  return std::make_shared<PinnedMemory>(device, most_kept_bytes);
}

void start_copy(void* target, int target_gpu, const void* source, int source_gpu, std::size_t bytes, Stream stream) {
  Api& api = Backend::of_this_process().api();
  if (target_gpu != source_gpu && kind_of(api, target) == MemoryKind::device &&
      kind_of(api, source) == MemoryKind::device) {
    check(api, api.memcpy_peer_async(target, target_gpu, source, source_gpu, bytes, stream), "cudaMemcpyPeerAsync");
  } else {
    check(api, api.memcpy_async(target, source, bytes, stream), "cudaMemcpyAsync");
  }
}

void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes) {
  const Backend& backend = Backend::of_this_process();
  const bool to_gpu = target_device.kind == DeviceKind::gpu;
  const bool from_gpu = source_device.kind == DeviceKind::gpu;
  const Device gpu = to_gpu ? target_device : source_device;
  const Stream stream = stream_of(gpu);
  const CurrentDevice current(gpu.index);
  require_reach(to_gpu ? target : source, gpu, to_gpu ? "target" : "source");
  if (to_gpu && from_gpu) {
    copy_between_gpus(target, target_device, source, source_device, bytes);
  } else if (const void* const host = to_gpu ? source : target; is_pinned(backend.api(), host)) {
    copy_at_once(target, source, bytes, gpu, host);
  } else if (to_gpu) {
    backend.open_devices().staging(gpu).to_device(target, source, bytes, stream, gpu);
  } else {
    backend.open_devices().staging(gpu).to_host(target, source, bytes, stream, gpu);
  }
}

void release_after_work(Device device, std::shared_ptr<void> owner) noexcept {
  const Backend& backend = Backend::of_this_process();
  if (!backend.is_of_this_process()) {
    leak(new std::shared_ptr<void>(std::move(owner)));
    return;
  }
  try {
    const Stream stream = stream_of(device);
    auto end = std::make_unique<OwnedEvent>(device.index);
    end->record(stream);
    backend.open_devices().keep(std::move(owner), std::move(end));
  } catch (const std::exception& error) {  // a failed device accesses no memory
    log_warning("memory of another library on {} is released without waiting for the device: {}", to_string(device),
                error.what());
  }
  release_completed();
}

void release_completed() noexcept {
  const Backend& backend = Backend::of_this_process();
  if (backend.is_of_this_process()) backend.open_devices().release_completed();
}

void zero_bytes(void* target, Device device, std::size_t bytes) {
  Api& api = Backend::of_this_process().api();
  const Stream stream = stream_of(device);
  const CurrentDevice current(device.index);
  check(api, api.memset_async(target, 0, bytes, stream), "cudaMemsetAsync");
}

}  // namespace lockstep::detail::cuda
