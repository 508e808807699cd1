// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that one side of a comparison works on.

#pragma once

#include "memory.hpp"
#include "options.hpp"

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace perf {

/// Zeroed bytes of one kind of host memory. Move-only.
class Block {
 public:
  /// Throws std::bad_alloc.
  Block(const std::shared_ptr<lockstep::MemoryResource>& resource, std::int64_t size_bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_.get(), data_.get_deleter().size_bytes}; }

 private:
  struct Free {
    std::shared_ptr<lockstep::MemoryResource> resource;
    std::size_t size_bytes;
    void operator()(std::byte* data) const noexcept { resource->deallocate(data, size_bytes); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// An input or an output. On a GPU the host has a copy of it, through which it writes and reads; in host memory the
/// copy is the thing itself.
class Region {
 public:
  Region(std::byte* data, std::span<std::byte> host, lockstep::Device device) noexcept
      : data_(data), host_(host), device_(device) {}

  /// What calls are given.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return host_.size(); }
  [[nodiscard]] lockstep::Device device() const noexcept { return device_; }
  [[nodiscard]] Region part(std::size_t begin_bytes, std::size_t size_bytes) const {
    return {data_ + begin_bytes, host_.subspan(begin_bytes, size_bytes), device_};
  }
  /// All elements, in one row.
  [[nodiscard]] lockstep::TensorView view(lockstep::DType dtype) const;

  [[nodiscard]] std::span<std::byte> host() const noexcept { return host_; }
  /// After the host has written; done on return.
  void to_device() const;
  /// Before the host reads.
  void to_host() const;

 private:
  std::byte* data_;
  std::span<std::byte> host_;
  lockstep::Device device_;
};

/// As many bytes from one to the other.
void copy(const Region& target, const Region& source);

/// Bytes on one device. Move-only.
class DeviceBlock {
 public:
  /// Throws std::bad_alloc.
  DeviceBlock(const MemoryKind& kind, lockstep::Device device, std::int64_t size_bytes);
  [[nodiscard]] Region region(std::int64_t begin_bytes, std::int64_t size_bytes) const;

 private:
  lockstep::Device device_;
  Block host_;
  lockstep::Tensor on_gpu_;  // without elements where the device is a CPU
  std::byte* data_;
};

/// One tensor of each replica of this rank: those of one device one behind the other.
class ReplicaBlocks {
 public:
  ReplicaBlocks(const Memory& memory, std::span<const std::int64_t> bytes_of_replicas);
  /// Of the first replicas, so many bytes each. Every region begins a cache line.
  [[nodiscard]] std::vector<Region> regions(std::span<const std::int64_t> bytes_of_replicas) const;

 private:
  std::vector<DeviceBlock> blocks_;
  std::vector<std::size_t> block_of_replica_;
};

/// Bytes that each replica of a rank needs for its input and its output, in whole cache lines.
struct CallExtent {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> outputs;
};

/// The inputs and the outputs of calls up to `extent`.
class Buffers {
 public:
  Buffers(const Memory& memory, const CallExtent& extent)
      : inputs_(memory, extent.inputs), outputs_(memory, extent.outputs) {}
  [[nodiscard]] const ReplicaBlocks& inputs() const noexcept { return inputs_; }
  /// In place: the inputs.
  [[nodiscard]] const ReplicaBlocks& outputs(Placement placement) const noexcept {
    return placement == Placement::in_place ? inputs_ : outputs_;
  }

 private:
  ReplicaBlocks inputs_;
  ReplicaBlocks outputs_;
};

/// `bytes`, up to a multiple of the cache line's.
[[nodiscard]] constexpr std::int64_t whole_lines(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// Reads one byte of each cache line.
void touch(std::span<const std::byte> bytes) noexcept;

}  // namespace perf
