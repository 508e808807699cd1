// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands beside the tensors of a checkpoint: how it was made, checksums, and what is no tensor.

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
    std::vector<std::uint32_t> checksums;  ///< CRC-32C of each piece of block_bytes, the last one shorter
  };
  /// A generator's or an iterator's numbers.
  struct WordsRecord {
    std::string kind;
    std::vector<std::uint64_t> common;
    std::vector<std::uint64_t> of_replica;  ///< by global id; empty where replicas have none
  };

  std::int64_t step = 0;
  std::vector<int> layout;  ///< replicas of each rank
  std::uint64_t file_bytes = 0;
  std::uint32_t header_checksum = 0;  ///< of everything before the first tensor's bytes
  std::uint64_t block_bytes = 0;
  std::map<std::string, TensorRecord> tensors;
  std::map<std::string, WordsRecord> words;

  [[nodiscard]] int replicas() const noexcept;
};

/// JSON with a checksum of itself.
[[nodiscard]] std::string to_text(const Manifest& manifest);
/// Throws Error(data_loss) that names `file` when `text` is damaged, Error(unimplemented) for one that a later version
/// wrote.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& file);

inline constexpr std::uint64_t block_bytes = std::uint64_t{8} << 20;

struct FileBlock {
  std::size_t tensor = 0;    ///< number in the header
  std::uint64_t offset = 0;  ///< in the tensor
  std::uint64_t bytes = 0;
  int writer = 0;  ///< rank
};

/// The tensors' data as blocks of `bytes_each`, the last of a tensor shorter, in their order in the file; a tensor
/// without elements has none. Of `writers` ranks each gets a contiguous piece, as equal as blocks allow.
[[nodiscard]] std::vector<FileBlock> file_blocks(const SafetensorsHeader& header, std::uint64_t bytes_each,
                                                 int writers);

}  // namespace lockstep::detail
