// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/mapped_file.hpp"

#include "base/check.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace lockstep::input {
namespace {

[[noreturn]] void throw_system(const char* what, const std::string& name, int error) {
  detail::throw_error(Code::invalid_argument, "cannot {} {}: {}", what, name, std::generic_category().message(error));
}

/// An open file that is closed at the end of the scope; a mapping of the file remains valid.
class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& name) : fd_(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw_system("open", name, errno);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { ::close(fd_); }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

constexpr std::size_t chunk_bytes = 256 * 1024;

}  // namespace

MappedFile::MappedFile(const std::string& path, Use use) : name_(path) {
  const FileDescriptor file(name_);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) throw_system("read", name_, errno);
  if (S_ISDIR(status.st_mode)) throw_system("read", name_, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    detail::throw_error(Code::invalid_argument,
                        "cannot read {}: not a regular file; copy its content to a regular file", name_);
  }
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) throw_system("map", name_, errno);
  if (use == Use::in_order) static_cast<void>(::madvise(address, size, MADV_SEQUENTIAL));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  // munmap takes a pointer to non-const
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool is_gzip(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

FileWindow::FileWindow(const std::string& path, Packing packing) : name_(path) {
  mapped_.emplace(path, MappedFile::Use::in_order);
  const bool found = is_gzip(mapped_->bytes());
  if (packing == Packing::gzip && !found) {
    detail::throw_error(Code::data_loss, "{} is not gzip data: the first two bytes are not 1f 8b", name_);
  }
  if (!found || packing == Packing::none) {
    view_ = mapped_->bytes();
    return;
  }
  mapped_.reset();
  packed_.emplace(path);
}

bool FileWindow::unpack(std::size_t bytes) {
  if (!packed_) return false;
  std::size_t held = view_.size();
  if (held != 0) std::memmove(buffer_.data(), view_.data(), held);
  bool is_at_end = false;
  while (held < bytes && !is_at_end) {
    // the buffer grows in steps, because the file may end long before `bytes`
    const std::size_t capacity = held + std::max(chunk_bytes, std::min(held, bytes - held));
    if (buffer_.size() < capacity) buffer_.resize(capacity);
    const std::span<std::byte> free = std::span(buffer_).subspan(held);
    const std::size_t count = packed_->read(free);
    is_at_end = count < free.size();
    held += count;
  }
  view_ = std::span(buffer_).first(held);
  return held >= bytes;
}

}  // namespace lockstep::input
