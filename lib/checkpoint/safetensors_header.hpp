// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file. The file consists of 8 bytes with the length of a JSON text, little-endian; the
// JSON text, which gives the element type, shape and byte range of each tensor; and the bytes of all tensors, without
// gaps.

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
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes in the file
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< offset of the first tensor's bytes in the file
  std::uint64_t data_bytes = 0;
};

/// Maximum length of the JSON text that is accepted; the reference implementation of the format has the same limit.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;

/// Returns the length of the JSON text, from the first 8 bytes of the file. `file_bytes` is the size of the whole file.
/// Throws Error(data_loss), which names `file`, if the file is too short or the length is too large.
[[nodiscard]] std::uint64_t header_length(std::string_view first_8_bytes, std::uint64_t file_bytes,
                                          const std::string& file);

/// Parses the JSON text. Checks element types and shapes, and checks that the tensors fill the data without gaps and
/// overlaps. Throws Error(data_loss) if the header violates the format. Throws Error(unimplemented) if lockstep does
/// not support an element type, or if a tensor has more than Shape::max_rank axes. The errors name `file`, and the
/// tensor if one tensor is wrong.
[[nodiscard]] SafetensorsHeader parse_header(std::string_view json, std::uint64_t file_bytes, const std::string& file);

/// Throws Error(data_loss) if a byte of a bool tensor is neither 0 nor 1, because reading any other value as a bool is
/// undefined behaviour in C++.
void check_elements(std::span<const std::byte> bytes, const TensorEntry& entry, const std::string& file);

/// Sorts `header.tensors` so that each tensor is aligned to its element size, sets the byte range of each tensor, and
/// returns the bytes of the header. The tensor data begins at a multiple of 64 bytes.
[[nodiscard]] std::string format_header(SafetensorsHeader& header);

/// Name of `dtype` in a safetensors file: "F32", "BOOL", ...
[[nodiscard]] std::string_view safetensors_name(DType dtype) noexcept;

}  // namespace lockstep::detail
