// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file: 8 bytes with the length of a JSON text, little-endian; the text, which says for
// each tensor its element type, shape, and where its bytes are; then the bytes of all tensors, without holes.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0;  ///< of its bytes, counted from the end of the header
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t byte_count() const noexcept { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< of the first tensor's bytes, in the file
  std::uint64_t data_bytes = 0;
};

/// Longest JSON text that is read, as in the format's own reader.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;

/// The length of the text that the first 8 bytes give; `file_bytes` is the size of the whole file. Throws
/// Error(data_loss) that names `file` when that cannot be.
[[nodiscard]] std::uint64_t header_length(std::string_view first_8_bytes, std::uint64_t file_bytes,
                                          const std::string& file);

/// What `json` says. Checks everything: types, shapes, that the tensors fill the data without holes and overlaps.
/// Throws Error(data_loss) for what no safetensors file says, Error(unimplemented) for what lockstep has not: other
/// element types, more than Shape::max_rank axes. Both name `file`, and the tensor.
[[nodiscard]] SafetensorsHeader parse_header(std::string_view json, std::uint64_t file_bytes, const std::string& file);

/// Throws Error(data_loss) where the bytes of a bool tensor are others than 0 and 1, which no bool of C++ may be.
void check_elements(std::span<const std::byte> bytes, const TensorEntry& entry, const std::string& file);

/// Orders `tensors` so that each is aligned to its own elements, gives them their places, and returns the header's
/// bytes; data begins at a multiple of 64.
[[nodiscard]] std::string format_header(SafetensorsHeader& header);

/// "F32", "BOOL", ...
[[nodiscard]] std::string_view safetensors_name(DType dtype) noexcept;

}  // namespace lockstep::detail
