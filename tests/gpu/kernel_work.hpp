// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Work for the measurement of kernels: arrays in the memory of the first GPU, a launch that works on them, and a
// comparison with the host's result.

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

/// The offset of arrays from an address that is a multiple of 256.
enum class Alignment : std::uint8_t {
  aligned,
  unaligned,  ///< all arrays one element after it
  mixed,      ///< each array one element further than the one before
};
[[nodiscard]] std::string_view to_string(Alignment alignment) noexcept;

/// Zeros in the memory of the first GPU, complete for every stream.
[[nodiscard]] Tensor zeros_on_gpu(std::int64_t bytes);

/// Sets of arrays of one length, which launches use in rotation. Together they exceed the GPU's caches, unless that
/// takes many sets, so that data that one launch leaves in the caches does not help the next.
class DeviceArrays {
 public:
  DeviceArrays(int arrays, std::int64_t bytes, std::size_t element_bytes, Alignment alignment);
  [[nodiscard]] int sets() const noexcept { return sets_of(arrays_, bytes_); }
  [[nodiscard]] std::byte* at(int set, int array) const;
  /// Bytes of all sets.
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

/// The inputs and outputs of a fold. The elements of a partial result are of accumulation_dtype(ReduceOp::sum, dtype).
enum class FoldStep : std::uint8_t {
  complete,       ///< the arrays of all replicas; their sum, in as many arrays
  to_partial,     ///< the arrays of all replicas; their sum as a partial result, in one array
  from_partials,  ///< partial results and, as the last input, the array of one replica; their sum, in one array
};

struct ReduceKind {
  DType dtype = DType::f32;
  int replicas = 2;        ///< number of inputs
  std::int64_t bytes = 0;  ///< bytes of each array of `dtype`
  Alignment alignment = Alignment::aligned;
  bool in_place = false;  ///< the inputs are the outputs; only of a complete fold
  FoldStep step = FoldStep::complete;
};

/// The sum of some arrays, written to other arrays or to themselves, in one kernel.
class ReduceWork {
 public:
  explicit ReduceWork(const ReduceKind& kind);
  [[nodiscard]] Launch launch() const;
  /// After one launch with number 0: the number of elements of the outputs that differ from the host's. Of long arrays
  /// only the first and last mebibytes are compared. All NaNs of a partial result are equal, because their bits are
  /// unspecified.
  [[nodiscard]] std::int64_t count_wrong() const;

  /// The least number of bytes that a launch reads and writes.
  [[nodiscard]] static std::int64_t moved_bytes(const ReduceKind& kind) noexcept;
  [[nodiscard]] static std::int64_t memory_bytes(const ReduceKind& kind);

 private:
  ReduceKind kind_;
  DeviceArrays arrays_;
  std::vector<Bytes> periods_;  // by input, which repeats its period
  std::vector<std::uint8_t> merges_;
  std::vector<std::vector<detail::FoldInput>> inputs_;  // by set
  std::vector<std::vector<void*>> outputs_;
};

enum class PackDirection : std::uint8_t { pack, unpack };

/// The tensors of a list, each at its own address, copied into one array or from it.
class PackWork {
 public:
  PackWork(std::span<const std::int64_t> bytes_of_tensors, Alignment alignment, PackDirection direction);
  [[nodiscard]] Launch launch() const;
  /// After a launch: the number of tensors that differ from their source.
  [[nodiscard]] std::int64_t count_wrong() const;
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  Tensor tensors_;
  Tensor packed_;
  std::vector<detail::cuda::CopyRegion> pieces_;
};

}  // namespace lockstep::test
