// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/buffers.hpp"

#include <lockstep/device/gpu.hpp>

#include <algorithm>
#include <cstring>

namespace perf {
namespace {

using lockstep::Device;
using lockstep::DeviceKind;
using lockstep::DType;

lockstep::TensorView bytes_view(std::span<std::byte> host) {
  return {host.data(), DType::u8, lockstep::Shape{static_cast<std::int64_t>(host.size())}, Device{}};
}

/// A tensor in the memory of a GPU; empty if the device is a CPU.
lockstep::Tensor tensor_on_gpu(const MemoryKind& kind, Device device, std::int64_t size_bytes) {
  if (device.kind != DeviceKind::gpu) return {};
  return {DType::u8, lockstep::Shape{size_bytes}, kind.make(device), device};
}

}  // namespace

Block::Block(const std::shared_ptr<lockstep::MemoryResource>& resource, std::int64_t size_bytes)
    : data_(static_cast<std::byte*>(resource->allocate(static_cast<std::size_t>(size_bytes))),
            Free{resource, static_cast<std::size_t>(size_bytes)}) {
  std::memset(data(), 0, bytes().size());  // the pages exist before anything is timed
}

lockstep::TensorView Region::view(DType dtype) const {
  const auto count = static_cast<std::int64_t>(size() / lockstep::size_of(dtype));
  return {data_, dtype, lockstep::Shape{count}, device_};
}

void Region::to_device() const {
  if (data_ == host_.data()) return;
  lockstep::copy(view(DType::u8), bytes_view(host_));
  lockstep::synchronize(device_);
}

void Region::to_host() const {
  if (data_ != host_.data()) lockstep::copy(bytes_view(host_), view(DType::u8));
}

void copy(const Region& target, const Region& source) {
  if (target.device().kind == DeviceKind::gpu) return lockstep::copy(target.view(DType::u8), source.view(DType::u8));
  std::memcpy(target.data(), source.data(), source.size());
}

DeviceBlock::DeviceBlock(const MemoryKind& kind, Device device, std::int64_t size_bytes)
    : device_(device),
      host_(kind.is_on_gpus ? lockstep::pinned_memory_resource() : kind.make(device), size_bytes),
      on_gpu_(tensor_on_gpu(kind, device, size_bytes)),
      data_(kind.is_on_gpus ? static_cast<std::byte*>(on_gpu_.data()) : host_.data()) {}

Region DeviceBlock::region(std::int64_t begin_bytes, std::int64_t size_bytes) const {
  const std::span<std::byte> host =
      host_.bytes().subspan(static_cast<std::size_t>(begin_bytes), static_cast<std::size_t>(size_bytes));
  return {data_ + begin_bytes, host, device_};
}

ReplicaBlocks::ReplicaBlocks(const Memory& memory, std::span<const std::int64_t> bytes_of_replicas) {
  std::vector<Device> devices;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < memory.devices.size(); ++i) {
    const auto found = std::find(devices.begin(), devices.end(), memory.devices[i]);
    block_of_replica_.push_back(static_cast<std::size_t>(found - devices.begin()));
    if (found == devices.end()) {
      devices.push_back(memory.devices[i]);
      sizes.push_back(0);
    }
    sizes[block_of_replica_.back()] += whole_lines(bytes_of_replicas[i]);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) blocks_.emplace_back(memory.kind, devices[i], sizes[i]);
}

std::vector<Region> ReplicaBlocks::regions(std::span<const std::int64_t> bytes_of_replicas) const {
  std::vector<std::int64_t> ends(blocks_.size());
  std::vector<Region> all;
  for (std::size_t i = 0; i < bytes_of_replicas.size(); ++i) {
    const std::size_t block = block_of_replica_[i];
    all.push_back(blocks_[block].region(ends[block], bytes_of_replicas[i]));
    ends[block] += whole_lines(bytes_of_replicas[i]);
  }
  return all;
}

void touch(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t line_bytes = 64;
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += line_bytes) sum += std::to_integer<unsigned>(bytes[i]);
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

}  // namespace perf
