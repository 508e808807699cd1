// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A file read from its start through a window: what is plain is seen where it is mapped, what is gzip is unpacked into
// a buffer that is as large as what is looked at.

#pragma once

#include "input/byte_reader.hpp"
#include "input/mapped_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

class FileWindow {
 public:
  enum class Packing { detected, none, gzip };
  /// Throws Error(invalid_argument) when the file cannot be read, and Error(data_loss) when it must be gzip but is not.
  explicit FileWindow(const std::filesystem::path& path, Packing packing = Packing::detected);

  /// The bytes from position() on, as far as they are seen.
  [[nodiscard]] std::span<const std::byte> view() const noexcept { return view_; }
  /// Sees at least `bytes` bytes, or all up to the end: false when these are fewer. Throws Error(data_loss) for gzip
  /// data that is damaged. Takes memory for what is there only, not for what is asked for.
  [[nodiscard]] bool ensure(std::size_t bytes) { return view_.size() >= bytes || unpack(bytes); }
  /// Leaves `bytes` of what is seen behind.
  void skip(std::size_t bytes) noexcept {
    view_ = view_.subspan(bytes);
    position_ += bytes;
  }
  /// Bytes left behind so far, after unpacking.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  bool unpack(std::size_t bytes);

  std::string name_;
  std::optional<MappedFile> mapped_;
  std::optional<ByteReader> packed_;
  std::vector<std::byte> buffer_;  // of packed_
  std::span<const std::byte> view_;
  std::uint64_t position_ = 0;
};

}  // namespace lockstep::input
