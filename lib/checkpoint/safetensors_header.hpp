// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file. The file has 8 bytes with the length of a JSON text, little-endian; the text, which
// gives the element type, shape and byte range of each tensor; and the bytes of all tensors, without gaps.

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
  std::uint64_t begin = 0;  ///< first byte, counted from the end of the header
  std::uint64_t end = 0;    ///< byte after the last one

  [[nodiscard]] std::uint64_t byte_count() const noexcept { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< position in the file of the first tensor's bytes
  std::uint64_t data_bytes = 0;
};

/// Longest JSON text that is accepted; the limit of the format's reference implementation.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;

/// The length of the JSON text, from the first 8 bytes of the file; `file_bytes` is the size of the whole file. Throws
/// Error(data_loss), which names `file`, if the length is too large for the file.
[[nodiscard]] std::uint64_t header_length(std::string_view first_8_bytes, std::uint64_t file_bytes,
                                          const std::string& file);

/// Parses the JSON text. Checks element types, shapes, and that the tensors fill the data without gaps and overlaps.
/// Throws Error(data_loss) for a header that violates the format, and Error(unimplemented) for element types that
/// lockstep does not support and for more than Shape::max_rank axes. Both name `file` and the tensor.
[[nodiscard]] SafetensorsHeader parse_header(std::string_view json, std::uint64_t file_bytes, const std::string& file);

/// Throws Error(data_loss) if a byte of a bool tensor is neither 0 nor 1; other values would be undefined behaviour in
/// C++.
void check_elements(std::span<const std::byte> bytes, const TensorEntry& entry, const std::string& file);

/// Sorts `header.tensors` so that each tensor is aligned to its element size, sets their byte ranges, and returns the
/// header's bytes. The data begins at a multiple of 64.
[[nodiscard]] std::string format_header(SafetensorsHeader& header);

/// "F32", "BOOL", ...
[[nodiscard]] std::string_view safetensors_name(DType dtype) noexcept;

}  // namespace lockstep::detail
