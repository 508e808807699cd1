// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A file's bytes where the page cache has them.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace lockstep::input {

/// Maps a regular file to be read. Pinned. A file that another process shortens meanwhile ends this one (SIGBUS).
class MappedFile {
 public:
  enum class Use { in_order, anywhere };
  /// Throws Error(invalid_argument) when the file cannot be opened or is no regular file.
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

/// Whether `bytes` begin as gzip data does.
[[nodiscard]] bool is_gzip(std::span<const std::byte> bytes) noexcept;

}  // namespace lockstep::input
