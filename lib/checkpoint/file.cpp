// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/file.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/phrases.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::detail {
namespace {

Code code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case ENAMETOOLONG:
    case ELOOP: return Code::invalid_argument;
    case EACCES:
    case EPERM:
    case EROFS: return Code::failed_precondition;
    default: return Code::unavailable;  // ENOSPC, EDQUOT, EFBIG, EIO, ...
  }
}

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view unfinished_prefix = ".unfinished-";
constexpr std::string_view removed_prefix = ".removed-";

/// The name that a file or folder has when it is complete: "step-000000000120" for a folder of unfinished_path. All
/// other names are unchanged.
std::string final_name(const Path& path) {
  std::string name = path.filename().string();
  if (!name.starts_with(unfinished_prefix)) return name;
  const std::string step = name.substr(unfinished_prefix.size());
  return std::string(step_prefix) + step.substr(0, step.find('-'));
}

/// `path` with the final_name of the file and of its folder.
Path final_path(const Path& path) {
  const Path folder = path.parent_path();
  if (folder.filename().string().starts_with(unfinished_prefix))
    return folder.parent_path() / final_name(folder) / path.filename();
  return path.filename().string().starts_with(unfinished_prefix) ? folder / final_name(path) : path;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* const begin = name.data() + step_prefix.size();
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || stopped != end || step < 0) return std::nullopt;
  return step;
}

/// Names of the entries of a directory, without "." and "..". Not by std::filesystem::directory_iterator, which ends
/// the process in libstdc++ if an allocation fails.
std::vector<std::string> names_in(const Path& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), ::closedir);
  if (entries == nullptr) throw_system_error("read the directory", directory, errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr && errno != 0) throw_system_error("read the directory", directory, errno);
    if (entry == nullptr) return names;
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  }
}

/// Returns true if `directory` exists. If the operating system cannot tell, throws an error of throw_system_error.
bool is_present(const Path& directory) {
  std::error_code error;
  const bool result = std::filesystem::exists(directory, error);
  if (error) throw_system_error("read the directory", directory, error.value());
  return result;
}

/// `folder` is a step folder without a manifest. If it has an entry that a save does not write, throws
/// Error(invalid_argument).
void require_parts_of_a_save(const Path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (name == state_name || name.starts_with('.')) continue;
    throw_error(Code::invalid_argument,
                "restore_latest: {} is not a checkpoint: it has no {}, but \"{}\"; move it to another directory",
                folder.string(), manifest_name, name);
  }
}

/// Renames the checkpoint, then removes its files. If the process is killed between these two steps, the remaining
/// files are not mistaken for an incomplete checkpoint.
void remove_checkpoint(const Path& directory, std::int64_t step) {
  const Path from = step_path(directory, step);
  const Path removed = directory / (std::string(removed_prefix) + from.filename().string());
  remove_quietly(removed);
  std::error_code error;
  std::filesystem::rename(from, removed, error);
  if (!error) remove_quietly(removed);
}

/// Removes a file, or a folder with its entries, as far as the system permits it.
void remove_tree(const Path& path) {
  if (::unlink(path.c_str()) == 0 || (errno != EISDIR && errno != EPERM)) return;
  for (const std::string& name : names_in(path)) remove_tree(path / name);
  ::rmdir(path.c_str());
}

/// Removes all complete checkpoints but that of `step` and the `keep` - 1 highest others, unless `keep` is 0, and the
/// rests of saves.
void remove_others(const Path& directory, std::int64_t step, int keep) {
  if (keep > 0) {
    std::vector<std::int64_t> steps = steps_in(directory);
    std::erase(steps, step);
    const auto others = static_cast<std::size_t>(keep - 1);
    for (std::size_t i = 0; i + others < steps.size(); ++i) remove_checkpoint(directory, steps[i]);
  }
  for (const std::string& name : names_in(directory)) {
    if (name.starts_with(unfinished_prefix) || name.starts_with(removed_prefix)) remove_quietly(directory / name);
  }
}

}  // namespace

void throw_system_error(std::string_view action, const Path& path, int error_number) {
  throw_error(code_of(error_number), "cannot {} {}: {}", action, final_path(path).string(),
              std::error_code(error_number, std::generic_category()).message());
}

void throw_system_error(const FileError& error, const Path& path) {
  throw_error(code_of(error.error_number()), "cannot {} {}: {}", error.action(), final_path(path).string(),
              error.what());
}

File::File(Path path, int descriptor) noexcept : path_(std::move(path)), descriptor_(descriptor) {}

File File::open_to_read(const Path& path) {
  File file(path, -1);  // the copy of the path, which takes memory, before the file is open
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor_ < 0) throw_system_error("open", path, errno);
  return file;
}

File File::open_to_write(const Path& path) {
  File file(path, -1);
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) throw_system_error("open for writing", path, errno);
  return file;
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t File::size() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) throw_system_error("read", path_, errno);
  if (!S_ISREG(status.st_mode))
    throw_error(Code::invalid_argument, "cannot read {}: it is not a regular file", path_.string());
  return static_cast<std::uint64_t>(status.st_size);
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_system_error("write", path_, written < 0 ? errno : ENOSPC);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void File::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("read", path_, errno);
    if (got == 0) {
      throw_error(Code::data_loss, "{} is truncated: it ends at byte {}, {} too early", path_.string(), offset,
                  counted(bytes.size(), "byte"));
    }
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void File::sync() {
  if (::fsync(descriptor_) != 0) throw_system_error("flush to disk (fsync)", path_, errno);
}

void write_text(const Path& path, std::string_view text) {
  try {
    OutputFile file = OutputFile::create(path.string());
    file.write(text);
    file.sync();
    file.close();
  } catch (const FileError& error) {
    throw_system_error(error, path);
  }
}

std::string read_text(const Path& path, std::uint64_t most) {
  const File file = File::open_to_read(path);
  const std::uint64_t size = file.size();
  if (size > most) {
    throw_error(Code::data_loss, "{} has {} bytes, but at most {} are allowed; it is not the manifest of a checkpoint",
                path.string(), size, most);
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void require_name(std::string_view call, const Path& directory) {
  if (!directory.empty()) return;
  throw_error(Code::invalid_argument,
              "{}: the directory is \"\"; pass the path of a directory (\".\" for the current one)", call);
}

void make_directories(const Path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    Path failing = path;  // the first missing directory
    std::error_code ignored;
    while (failing.has_relative_path() && failing.has_parent_path() &&
           !std::filesystem::exists(failing.parent_path(), ignored))
      failing = failing.parent_path();
    throw_system_error("create the directory", failing, error.value());
  }
  if (!std::filesystem::is_directory(path, error)) throw_system_error("create the directory", path, ENOTDIR);
}

File File::open_directory(const Path& path) {
  File file(path, -1);
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file.descriptor_ < 0) throw_system_error("open the directory", path, errno);
  return file;
}

void File::sync_directory() {
  if (const int error_number = sync_names(descriptor_))
    throw_system_error("flush to disk (fsync)", path_, error_number);
}

void put_in_place(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != EEXIST && errno != ENOTEMPTY) throw_system_error("create", to, errno);
  // an atomic exchange, so that `to` exists at every moment
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) throw_system_error("replace", to, errno);
  // The file system does not support RENAME_EXCHANGE, so this exchange is not atomic. If the process is killed between
  // the renames, no checkpoint of this step remains, but the other checkpoints are not affected.
  const Path aside = from.string() + "-old";
  if (::rename(to.c_str(), aside.c_str()) != 0) throw_system_error("replace", to, errno);
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system_error("replace", to, errno);
  if (::rename(aside.c_str(), from.c_str()) != 0) throw_system_error("rename", aside, errno);
}

void remove_quietly(const Path& path) noexcept {
  try {
    remove_tree(path);
  } catch (...) {  // out of memory: the files remain
  }
}

Path step_path(const Path& directory, std::int64_t step) {
  return directory / fmt::format("{}{:012}", step_prefix, step);
}

Path unfinished_path(const Path& directory, std::int64_t step, std::uint64_t nonce) {
  return directory / fmt::format("{}{:012}-{:016x}", unfinished_prefix, step, nonce);
}

std::vector<std::int64_t> steps_in(const Path& directory) {
  std::error_code error;
  std::vector<std::int64_t> steps;
  if (!is_present(directory)) return steps;
  for (const std::string& name : names_in(directory)) {
    const auto step = step_of(name);
    if (step && std::filesystem::exists(directory / name / manifest_name, error)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Found find_checkpoints(const Path& directory) {
  Found found;
  if (!is_present(directory)) return found;
  const std::vector<std::int64_t> complete = steps_in(directory);
  if (!complete.empty()) found.latest = complete.back();
  std::string other;
  bool has_step = false;
  for (const std::string& name : names_in(directory)) {
    std::error_code error;
    const auto step = step_of(name);
    if (!step || !std::filesystem::is_directory(directory / name, error)) {
      if (!name.starts_with('.')) other = name;
      continue;
    }
    has_step = true;
    if (std::filesystem::exists(directory / name / manifest_name, error)) continue;
    require_parts_of_a_save(directory / name);
    if (!found.latest || *step > *found.latest) found.incomplete.push_back(*step);
  }
  if (!has_step && !other.empty()) {
    throw_error(Code::invalid_argument,
                "restore_latest: {} has no checkpoints, but it has other entries, such as \"{}\"; give "
                "the directory of the checkpoints, or an empty or new one",
                directory.string(), other);
  }
  std::sort(found.incomplete.begin(), found.incomplete.end());
  return found;
}

void commit(const Path& directory, const Path& from, std::int64_t step, int keep) {
  const Path to = step_path(directory, step);
  File parent = File::open_directory(directory);  // before the rename, after which nothing should fail
  File::open_directory(from).sync_directory();
  put_in_place(from, to);
  parent.sync_directory();
  try {
    remove_others(directory, step, keep);
  } catch (const std::exception& error) {  // the checkpoint is complete
    log_warning("checkpoint: {} is saved, but earlier checkpoints remain: {}", to.string(), error.what());
  }
}

}  // namespace lockstep::detail
