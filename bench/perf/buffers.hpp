// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The buffers of one side of a comparison.

#pragma once

#include "bench/perf/memory.hpp"
#include "bench/perf/options.hpp"

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

/// An input or an output. If it is on a GPU, the host writes and reads it through a copy in host memory; in host memory
/// the copy is the buffer itself.
class Region {
 public:
  Region(std::byte* data, std::span<std::byte> host, lockstep::Device device) noexcept
      : data_(data), host_(host), device_(device) {}

  /// The address that calls take.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return host_.size(); }
  [[nodiscard]] lockstep::Device device() const noexcept { return device_; }
  [[nodiscard]] Region part(std::size_t begin_bytes, std::size_t size_bytes) const {
    return {data_ + begin_bytes, host_.subspan(begin_bytes, size_bytes), device_};
  }
  /// All elements, as a tensor of one dimension.
  [[nodiscard]] lockstep::TensorView view(lockstep::DType dtype) const;

  [[nodiscard]] std::span<std::byte> host() const noexcept { return host_; }
  /// Copies what the host has written to the device; complete on return.
  void to_device() const;
  /// Copies to the host, before it reads.
  void to_host() const;

 private:
  std::byte* data_;
  std::span<std::byte> host_;
  lockstep::Device device_;
};

/// Copies all bytes of one region to another of the same size.
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
  lockstep::Tensor on_gpu_;  // empty if the device is a CPU
  std::byte* data_;
};

/// One tensor of each replica of this rank; tensors of one device are contiguous.
class ReplicaBlocks {
 public:
  ReplicaBlocks(const Memory& memory, std::span<const std::int64_t> bytes_of_replicas);
  /// The regions of the first replicas, of the given sizes. Each region begins at a cache line.
  [[nodiscard]] std::vector<Region> regions(std::span<const std::int64_t> bytes_of_replicas) const;

 private:
  std::vector<DeviceBlock> blocks_;
  std::vector<std::size_t> block_of_replica_;
};

/// Bytes that each replica of a rank needs for its input and its output, rounded up to cache lines.
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
  /// The outputs; if the call is in place, the inputs.
  [[nodiscard]] const ReplicaBlocks& outputs(Placement placement) const noexcept {
    return placement == Placement::in_place ? inputs_ : outputs_;
  }

 private:
  ReplicaBlocks inputs_;
  ReplicaBlocks outputs_;
};

/// `bytes`, rounded up to a multiple of the cache line.
[[nodiscard]] constexpr std::int64_t whole_lines(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// Reads one byte of each cache line.
void touch(std::span<const std::byte> bytes) noexcept;

}  // namespace perf
