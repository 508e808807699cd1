// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every file that lockstep and its programs write. A path may be in a directory that other users can write to: symbolic
// links at the path are never followed. Programs of apps/ and bench/ compile this source, too, so it uses no other part
// of lockstep.

#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// A file cannot be written. The text is the reason alone, without the path: "No space left on device", "it is a
/// symbolic link, and links are not followed". Callers add the path and the name of the file's purpose.
class FileError : public std::runtime_error {
 public:
  /// `action` is what failed: "open for writing", "write", "flush to disk (fsync)" or "create". An empty `reason`
  /// stands for the text of `error_number`.
  FileError(const char* action, int error_number, const std::string& reason = {});

  [[nodiscard]] const char* action() const noexcept { return action_; }
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  const char* action_;  // a literal
  int error_number_;
};

/// Returns 0 when the names in the directory that `descriptor` has opened are on the disk, else the number of the
/// error.
[[nodiscard]] int sync_names(int descriptor) noexcept;

/// Throws FileError if something at `path` is not a regular file. A symbolic link is not, whatever it points to.
void require_regular_file(const std::string& path);

/// A file that this process writes from its first to its last byte. Owns the descriptor. Move-only. Not thread-safe.
/// All members throw FileError.
class OutputFile {
 public:
  /// A new file with mode 0666 without the bits of the umask. If there is a file or a link at `path`, removes it first:
  /// other names of the same file keep the old content.
  [[nodiscard]] static OutputFile create(const std::string& path);
  /// A file at whose end each write appends; makes it, as `create` does, if there is none. Refuses what
  /// require_regular_file refuses, also if another process puts it there at the same time.
  [[nodiscard]] static OutputFile append(const std::string& path);

  OutputFile() = default;  ///< not open
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  /// Closes the file, and ignores errors.
  ~OutputFile();

  [[nodiscard]] bool is_open() const noexcept { return file_ >= 0; }
  /// Writes all of `text`, also if the system takes only a part of it at a time.
  void write(std::string_view text);
  /// Returns when all that was written is on the disk.
  void sync();
  /// Some file systems report only here that there was no space.
  void close();

 private:
  friend class FileReplacement;
  explicit OutputFile(int file) noexcept : file_(file) {}
  int file_ = -1;
};

enum class Durability {
  none,  ///< a crash of the host may lose the file, or leave it empty
  disk,  ///< the file and its name are on the disk when finish() returns
};

/// Writes a whole file: readers see the old file or all of the new one. The parts are written under another name in the
/// same folder, "<path>.part<pid>-<n>", which finish() changes to `path`. Not thread-safe. All members throw FileError;
/// the old file is then unchanged.
class FileReplacement {
 public:
  /// Opens the new file. Refuses a `path` that is a directory, a device or a pipe. finish() replaces a symbolic link by
  /// the file.
  explicit FileReplacement(std::string path);
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;
  /// Removes what was written, unless finish() has returned.
  ~FileReplacement();

  void write(std::string_view text) { file_.write(text); }
  void finish(Durability durability);

 private:
  const std::string path_;
  std::string part_;  // empty: there is none
  OutputFile file_;
};

}  // namespace lockstep::detail
