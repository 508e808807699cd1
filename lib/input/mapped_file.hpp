// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files mapped into memory, and windows that move over a file from its start.

#pragma once

#include "input/byte_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

/// Maps a regular file for reading. Neither copyable nor movable. If another process shortens the file, reading raises
/// SIGBUS.
class MappedFile {
 public:
  enum class Use { in_order, anywhere };
  /// Throws Error(invalid_argument) if the file cannot be opened or is not a regular file.
  explicit MappedFile(const std::string& path, Use use = Use::anywhere);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

/// Whether `bytes` begins like gzip data.
[[nodiscard]] bool is_gzip(std::span<const std::byte> bytes) noexcept;

/// Reads a file from its start through a window. A plain file is mapped. Gzip data is decompressed into a buffer, which
/// holds the window; with Packing::none, gzip data is read like a plain file.
class FileWindow {
 public:
  enum class Packing { detected, none, gzip };
  /// Throws Error(invalid_argument) if the file cannot be read, and Error(data_loss) if `packing` is gzip but the data
  /// is not gzip.
  explicit FileWindow(const std::string& path, Packing packing = Packing::detected);

  /// The window: bytes from position() on.
  [[nodiscard]] std::span<const std::byte> view() const noexcept { return view_; }
  /// Extends the window to at least `bytes` bytes, or to the end of the file; returns false if the file ends before
  /// `bytes` bytes. Throws Error(data_loss) for damaged gzip data. The buffer of gzip data grows with the
  /// decompressed data; `bytes` bytes are not reserved at once.
  [[nodiscard]] bool ensure(std::size_t bytes) { return view_.size() >= bytes || unpack(bytes); }
  /// Removes the first `bytes` bytes from the window, which must have at least `bytes` bytes.
  void skip(std::size_t bytes) noexcept {
    view_ = view_.subspan(bytes);
    position_ += bytes;
  }
  /// Position of the window in the file, after decompression.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  bool unpack(std::size_t bytes);

  std::string name_;
  std::optional<MappedFile> mapped_;
  std::optional<ByteReader> packed_;
  std::vector<std::byte> buffer_;  // decompressed bytes of packed_
  std::span<const std::byte> view_;
  std::uint64_t position_ = 0;
};

}  // namespace lockstep::input
