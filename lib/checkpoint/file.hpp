// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files as a checkpoint needs them: written so that they are on the disk when we say so, and errors that name the file.

#pragma once

#include <lockstep/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::detail {

using Path = std::filesystem::path;

/// Throws Error that names `call`, `path` and the reason `error_number`: invalid_argument where the path is wrong,
/// failed_precondition where something is not allowed, unavailable where there is no space or the device fails.
[[noreturn]] void throw_system_error(std::string_view call, const Path& path, int error_number);

/// An open file. Move-only.
class File {
 public:
  /// Throws as throw_system_error.
  [[nodiscard]] static File open_to_read(const Path& path);
  /// Makes the file if there is none.
  [[nodiscard]] static File open_to_write(const Path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  [[nodiscard]] const Path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  /// All of `bytes`, from `offset` on.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Fills `bytes`; throws Error(data_loss) where the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Returns when everything that was written is on the disk.
  void sync();

 private:
  File(Path path, int descriptor) noexcept;
  Path path_;
  int descriptor_ = -1;
};

/// The whole file. Throws Error(data_loss) when it is longer than `most` bytes.
[[nodiscard]] std::string read_text(const Path& path, std::uint64_t most);

void make_directories(const Path& path);
/// What `path`'s entries are called is on the disk when this returns.
void sync_directory(const Path& path);
/// `from` becomes `to` in one step; what is `to` now becomes `from`.
void put_in_place(const Path& from, const Path& to);
/// Removes files and folders; what cannot be removed stays. Never throws.
void remove_quietly(const Path& path) noexcept;

}  // namespace lockstep::detail
