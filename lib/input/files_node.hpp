// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset of the elements of a list of files, file after file or interleaved.

#pragma once

#include "input/node.hpp"

#include <lockstep/input/records.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

/// Opens one file; called when reading reaches the file.
using OpenFile = std::function<std::unique_ptr<Cursor>(const std::string& path, const PassOptions& options)>;

/// `reader` is the prefix of error texts. Throws Error(invalid_argument) if `files` is empty, or if the cycle length or
/// the block length is below 1.
[[nodiscard]] std::shared_ptr<const Node> files_node(const char* reader, FileList files, OpenFile open,
                                                     const InterleaveOptions& options);

/// Throws Error(invalid_argument) unless max_record_bytes is in 1 to 2^40.
void check_options(const char* reader, const RecordOptions& options);
/// Throws Error(invalid_argument) for an empty list.
void check_files(const char* reader, const FileList& files);
/// Those of `files` that belong to `part`. Throws Error(invalid_argument) if no file belongs to `part`.
[[nodiscard]] FileList part_of(const FileList& files, const Part& part);

/// Base of cursors whose elements are records of bytes: u8 tensors of shape [length]. `read` creates the tensor.
class BytesCursor : public Cursor {
 public:
  explicit BytesCursor(std::shared_ptr<MemoryResource> memory) noexcept : memory_(std::move(memory)) {}
  void read(Leaves& element) final { read_rows(0, rows(), element); }
  [[nodiscard]] std::int64_t rows() final { return static_cast<std::int64_t>(present_.size()); }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) final;

 protected:
  std::span<const std::byte> present_;  // current record; valid until the next advance

 private:
  std::shared_ptr<MemoryResource> memory_;
};

}  // namespace lockstep::input
