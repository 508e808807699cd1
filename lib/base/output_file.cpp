// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace lockstep::detail {
namespace {

/// Repeats `call` as long as a signal interrupts it.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int open_file(const std::string& path, int flags) {
  constexpr mode_t mode = 0666;  // without the bits of the umask
  return uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, mode); });
}

/// Opens a new file of this name; -1 with errno if this fails, EEXIST if something has the name.
int open_new(const std::string& path) { return open_file(path, O_CREAT | O_EXCL); }

constexpr const char* opening = "open for writing";
constexpr const char* creating = "create";

/// Throws the error for what is at `path`, unless it is a regular file, a directory or nothing.
void refuse_special_file(const std::string& path, bool permits_links) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return;
  if (!S_ISLNK(status.st_mode)) throw FileError(opening, EEXIST, "it is not a regular file");
  if (!permits_links) throw FileError(opening, ELOOP, "it is a symbolic link, and links are not followed");
}

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The folder of a path, so that its names can be written to the disk.
class Folder {
 public:
  explicit Folder(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    file_ = uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (file_ < 0) throw FileError("open the directory of", errno);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { ::close(file_); }
  void sync() const {
    if (const int error_number = sync_names(file_)) throw FileError("flush to disk (fsync)", error_number);
  }

 private:
  int file_ = -1;
};

}  // namespace

FileError::FileError(const char* action, int error_number, const std::string& reason)
    : std::runtime_error(reason.empty() ? std::generic_category().message(error_number) : reason),
      action_(action),
      error_number_(error_number) {}

int sync_names(int descriptor) noexcept {
  // EINVAL: this file system does not support fsync on directories, and does not need such a call
  return uninterrupted([&] { return ::fsync(descriptor); }) == 0 || errno == EINVAL ? 0 : errno;
}

void require_regular_file(const std::string& path) {
  refuse_special_file(path, false);
  if (is_directory(path)) throw FileError(opening, EISDIR);
}

OutputFile OutputFile::create(const std::string& path) {
  ::unlink(path.c_str());  // if this fails, opening the file reports an error
  const int file = open_new(path);
  if (file >= 0) return OutputFile(file);
  const int error_number = errno;
  if (error_number == EEXIST) require_regular_file(path);
  throw FileError(opening, error_number);
}

OutputFile OutputFile::append(const std::string& path) {
  // O_NONBLOCK: a pipe without a reader would block; it has no effect on regular files
  const int file = open_file(path, O_CREAT | O_APPEND | O_NONBLOCK);
  const int error_number = errno;
  if (file < 0) {
    require_regular_file(path);
    throw FileError(opening, error_number);
  }
  OutputFile result(file);
  struct stat status{};
  if (::fstat(file, &status) != 0) throw FileError(opening, errno);
  if (!S_ISREG(status.st_mode)) throw FileError(opening, EEXIST, "it is not a regular file");
  return result;
}

OutputFile::OutputFile(OutputFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(file_, text.data(), text.size()); });
    if (written <= 0) throw FileError("write", written < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::sync() {
  if (uninterrupted([&] { return ::fsync(file_); }) != 0) throw FileError("flush to disk (fsync)", errno);
}

void OutputFile::close() {
  // after EINTR the descriptor is closed, too
  if (::close(std::exchange(file_, -1)) != 0 && errno != EINTR) throw FileError("write", errno);
}

FileReplacement::FileReplacement(std::string path) : path_(std::move(path)) {
  refuse_special_file(path_, true);
  if (is_directory(path_)) throw FileError(creating, EISDIR);
  static std::atomic<unsigned> count{0};  // several threads may write at the same time
  constexpr int most_names = 16;          // that other users, or killed processes with this id, may have taken
  for (int tries = 1;; ++tries) {
    std::string part = path_ + ".part" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    const int file = open_new(part);
    if (file >= 0) {
      file_ = OutputFile(file);
      part_ = std::move(part);
      return;
    }
    if (errno != EEXIST || tries == most_names) throw FileError(opening, errno);
  }
}

FileReplacement::~FileReplacement() {
  if (!part_.empty()) ::unlink(part_.c_str());
}

void FileReplacement::finish(Durability durability) {
  std::optional<Folder> folder;
  if (durability == Durability::disk) {
    file_.sync();
    folder.emplace(path_);  // before the old file is replaced: there may be no descriptor left
  }
  file_.close();
  if (::rename(part_.c_str(), path_.c_str()) != 0) throw FileError(creating, errno);
  part_.clear();
  if (folder) folder->sync();
}

}  // namespace lockstep::detail
