// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/memory.hpp"

#include "base/mutex.hpp"
#include "device/cuda/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

/// A std::bad_alloc whose text tells which memory is exhausted.
class MemoryUsedUp final : public std::bad_alloc {
 public:
  explicit MemoryUsedUp(const std::string& text) noexcept {
    std::copy_n(text.begin(), std::min(text.size(), text_.size() - 1), text_.begin());
  }
  [[nodiscard]] const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 96> text_{};  // not a std::string: copying it might fail for lack of memory
};

/// Returns `block` if `status` of the allocation `call` is success. If it is out_of_memory, clears CUDA's last error
/// and throws MemoryUsedUp.
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
  const CurrentDevice current(device);
  void* block = nullptr;
  const Status status = api.malloc_async(block, std::max<std::size_t>(bytes, 1), stream);
  return taken(api, status, block, "cudaMallocAsync",
               [&] { return fmt::format("out of memory on gpu:{}: {} bytes requested", device, bytes); });
}

void give_back_block(void* block, int device, Stream stream) noexcept {
  give_back(device, "cudaFreeAsync", [&](Api& api) { return api.free_async(block, stream); });
}

class StreamMemory final : public MemoryResource {
 public:
  StreamMemory(int device, Stream stream) : device_(device), stream_(stream) {}

 private:
  void* do_allocate(std::size_t bytes) override { return take(bytes, device_, stream_); }
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
  /// The size class of `bytes`. There are eight classes between a power of two and the next, so at most an eighth is
  /// unused.
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
    } catch (...) {  // out of memory for the list
    }
    give_back_pinned(block, device_);
  }

  const int device_;
  const std::size_t most_kept_bytes_;
  Mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> kept_ LOCKSTEP_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

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

}  // namespace lockstep::detail::cuda
