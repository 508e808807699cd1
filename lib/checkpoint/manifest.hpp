// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a checkpoint is a file beside the tensor file. It has the layout, the checksums, and the state that
// is not a tensor. The tensor file is divided into blocks; each block has a checksum and is written by one rank.

#pragma once

#include "checkpoint/safetensors_header.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::detail {

struct Manifest {
  static constexpr int version = 1;

  struct TensorRecord {
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape;
    std::string synchronization;
    std::string aggregation;
    std::vector<std::uint32_t> checksums;  ///< CRC-32C of each block of the tensor
  };
  /// The state of a generator or an iterator, as numbers.
  struct WordsRecord {
    std::string kind;
    std::vector<std::uint64_t> common;
    std::vector<std::uint64_t> of_replica;  ///< by global replica id; empty if there is no state per replica
  };

  std::int64_t step = 0;
  std::vector<int> layout;  ///< number of replicas of each rank
  std::uint64_t file_bytes = 0;
  std::uint32_t header_checksum = 0;  ///< CRC-32C of all bytes before the first byte of tensor data
  std::uint64_t block_bytes = 0;
  std::map<std::string, TensorRecord> tensors;
  std::map<std::string, WordsRecord> words;

  [[nodiscard]] int replicas() const noexcept;
};

/// Returns the manifest as JSON text, which includes a checksum of its content.
[[nodiscard]] std::string to_text(const Manifest& manifest);
/// Parses a manifest. Throws Error(data_loss) if `text` is damaged, and Error(unimplemented) if a later version of
/// lockstep wrote `text`. Both errors name `file`.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& file);

inline constexpr std::uint64_t block_bytes = std::uint64_t{8} << 20;

struct FileBlock {
  std::size_t tensor = 0;    ///< index in the header
  std::uint64_t offset = 0;  ///< first byte, counted from the first byte of the tensor
  std::uint64_t bytes = 0;
  int writer = 0;  ///< rank that writes the block
};

/// Divides the data of each tensor into blocks of `bytes_each` bytes, in the order of the file; the last block of a
/// tensor may be shorter. A tensor without elements has no blocks. Each of `writers` ranks gets a contiguous range of
/// blocks. The ranges are as equal in size as whole blocks permit.
[[nodiscard]] std::vector<FileBlock> file_blocks(const SafetensorsHeader& header, std::uint64_t bytes_each,
                                                 int writers);

}  // namespace lockstep::detail
