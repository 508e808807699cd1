// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A file mapped into memory.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace lockstep::input {

/// Maps a regular file for reading. Neither copyable nor movable. If another process shortens the file, reading raises
/// SIGBUS.
class MappedFile {
 public:
  enum class Use { in_order, anywhere };
  /// Throws Error(invalid_argument) if the file cannot be opened or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path, Use use = Use::anywhere);
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

}  // namespace lockstep::input
