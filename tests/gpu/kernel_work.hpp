// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What is measured of the kernels: arrays in the memory of the first GPU, the launch that works on them, and whether
// the host gets the same.

#pragma once

#include "gpu/device_clock.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/device/tensor.hpp>

#include "device/cuda/kernels.hpp"
#include "support/canonical_sum.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// Where arrays begin, from an address that is a multiple of 256.
enum class Alignment : std::uint8_t {
  aligned,
  unaligned,  ///< one element behind it, all of them
  mixed,      ///< each one element further behind it than the one before
};
[[nodiscard]] std::string_view to_string(Alignment alignment) noexcept;

/// Zeros in the memory of the first GPU; they are there, for every stream.
[[nodiscard]] Tensor zeros_on_gpu(std::int64_t bytes);

/// Sets of arrays of one length, which launches take by turns: together more than the GPU's caches hold, unless that
/// takes many sets, so that what one launch leaves in the caches does not help the next.
class DeviceArrays {
 public:
  DeviceArrays(int arrays, std::int64_t bytes, std::size_t element_bytes, Alignment alignment);
  [[nodiscard]] int sets() const noexcept { return sets_of(arrays_, bytes_); }
  [[nodiscard]] std::byte* at(int set, int array) const;
  /// Of all sets.
  [[nodiscard]] static std::int64_t memory_bytes(int arrays, std::int64_t bytes);

 private:
  [[nodiscard]] static int sets_of(int arrays, std::int64_t bytes) noexcept;
  [[nodiscard]] static std::int64_t stride_bytes(std::int64_t bytes) noexcept { return (bytes + 511) / 256 * 256; }

  int arrays_;
  std::int64_t bytes_;
  std::size_t element_bytes_;
  Alignment alignment_;
  Tensor memory_;
};

struct ReduceKind {
  DType dtype = DType::f32;
  int replicas = 2;
  std::int64_t bytes = 0;  ///< of each array
  Alignment alignment = Alignment::aligned;
  bool in_place = false;
};

/// The sum of the arrays of some replicas to as many others, or to themselves, in one kernel.
class ReduceWork {
 public:
  explicit ReduceWork(const ReduceKind& kind);
  [[nodiscard]] Launch launch() const;
  /// After one launch of number 0: elements of the outputs that are not the host's. Of long ones the first and the
  /// last mebibytes are looked at.
  [[nodiscard]] std::int64_t count_wrong() const;

  /// What a launch reads and writes at least.
  [[nodiscard]] static std::int64_t moved_bytes(const ReduceKind& kind) noexcept {
    return 2 * kind.replicas * kind.bytes;
  }
  [[nodiscard]] static std::int64_t memory_bytes(const ReduceKind& kind) {
    return DeviceArrays::memory_bytes(kind.in_place ? kind.replicas : 2 * kind.replicas, kind.bytes);
  }

 private:
  ReduceKind kind_;
  DeviceArrays arrays_;
  std::vector<Bytes> periods_;  // of each input, which repeats it
  std::vector<std::uint8_t> merges_;
  std::vector<std::vector<detail::FoldInput>> inputs_;  // of each set
  std::vector<std::vector<void*>> outputs_;
};

enum class PackDirection : std::uint8_t { pack, unpack };

/// Tensors of a list, each at an address of its own, copied into one array, or from it.
class PackWork {
 public:
  PackWork(std::span<const std::int64_t> bytes_of_tensors, Alignment alignment, PackDirection direction);
  [[nodiscard]] Launch launch() const;
  /// After a launch: tensors that are not what they were copied from.
  [[nodiscard]] std::int64_t count_wrong() const;
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  Tensor tensors_;
  Tensor packed_;
  std::vector<detail::cuda::CopyRegion> pieces_;
};

}  // namespace lockstep::test
