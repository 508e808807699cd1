// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The files of checkpoints: durable writes, errors that name the file, and the directory of a run's checkpoints. Each
// checkpoint is a folder "step-000000000120" with state.safetensors and manifest.json. While a folder is written or
// removed, it has another name, which begins with a dot; lists of checkpoints ignore such names.

#pragma once

#include "base/output_file.hpp"

#include <lockstep/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

using Path = std::filesystem::path;

/// Throws Error "cannot <action> <path>: <text of error_number>". If `path` has the temporary name of unfinished_path,
/// the text has the name of the finished checkpoint instead. The code is invalid_argument if the path is wrong,
/// failed_precondition if permission is missing, and unavailable for other errors: there is no space, or the
/// device fails.
[[noreturn]] void throw_system_error(std::string_view action, const Path& path, int error_number);
/// The same for an error of the writer of files.
[[noreturn]] void throw_system_error(const FileError& error, const Path& path);

/// An open file. Move-only.
class File {
 public:
  /// Opens an existing file for reading. Throws an error of throw_system_error.
  [[nodiscard]] static File open_to_read(const Path& path);
  /// Opens a file for writing; creates the file if it does not exist. Does not truncate an existing file, because
  /// several ranks write to one file. A file that one rank writes is an OutputFile or a FileReplacement. Does not
  /// follow a symbolic link.
  [[nodiscard]] static File open_to_write(const Path& path);
  /// Opens a directory for sync_directory.
  [[nodiscard]] static File open_directory(const Path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  [[nodiscard]] const Path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Writes all of `bytes` at `offset`.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Reads `bytes.size()` bytes at `offset` into `bytes`. Throws Error(data_loss) if the file is too short.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Returns when all written data is on the disk.
  void sync();
  /// Returns when the names of the entries of this directory, from open_directory, are on the disk.
  void sync_directory();

 private:
  File(Path path, int descriptor) noexcept;
  Path path_;
  int descriptor_ = -1;
};

/// Creates a file with this content; returns when it is on the disk, but not yet its name. Throws an error of
/// throw_system_error.
void write_text(const Path& path, std::string_view text);

/// Reads the whole file. Throws Error(data_loss) if it is longer than `most` bytes.
[[nodiscard]] std::string read_text(const Path& path, std::uint64_t most);

/// Throws Error(invalid_argument), whose text begins with `call`, if `directory` is empty.
void require_name(std::string_view call, const Path& directory);
void make_directories(const Path& path);
/// Renames `from` to `to`. Replaces an existing file or empty directory `to`; exchanges `from` with any other directory
/// `to`. Atomic, except for an exchange on a file system without RENAME_EXCHANGE.
void put_in_place(const Path& from, const Path& to);
/// Removes a file, or a folder with its content. Ignores errors. Never throws.
void remove_quietly(const Path& path) noexcept;

inline constexpr const char* state_name = "state.safetensors";
inline constexpr const char* manifest_name = "manifest.json";

[[nodiscard]] Path step_path(const Path& directory, std::int64_t step);
/// Folder in which a checkpoint is written; commit() renames it. `nonce` distinguishes this folder from unfinished
/// folders of earlier jobs.
[[nodiscard]] Path unfinished_path(const Path& directory, std::int64_t step, std::uint64_t nonce);

/// Steps of the complete checkpoints, ascending. The result is empty if the directory does not exist. Throws an error
/// of throw_system_error.
[[nodiscard]] std::vector<std::int64_t> steps_in(const Path& directory);

/// The checkpoints in a directory, for restore_latest.
struct Found {
  std::optional<std::int64_t> latest;    ///< step of the complete checkpoint with the highest step
  std::vector<std::int64_t> incomplete;  ///< steps above `latest` whose folder has no manifest, ascending
};
/// Lists the checkpoints in `directory`. The result is empty if `directory` does not exist or is empty. Ignores entries
/// whose names begin with a dot. Throws an error of throw_system_error if `directory` cannot be read. Throws
/// Error(invalid_argument), which names the folder and an entry, if `directory` has entries but no step folder, or if a
/// step folder without a manifest has files that a save does not write.
[[nodiscard]] Found find_checkpoints(const Path& directory);

/// Renames the finished folder `from` to the checkpoint of `step`, and syncs the directory. Then removes the unfinished
/// folders of earlier jobs. If `keep` is not 0, also removes old checkpoints: only the new checkpoint and the `keep` -
/// 1 other checkpoints with the highest steps remain. If checkpoints cannot be removed, logs a warning.
void commit(const Path& directory, const Path& from, std::int64_t step, int keep);

}  // namespace lockstep::detail
