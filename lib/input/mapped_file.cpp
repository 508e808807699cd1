// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/mapped_file.hpp"

#include "base/check.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::input {
namespace {

[[noreturn]] void throw_system(const char* what, const std::string& name, int error) {
  detail::throw_error(Code::invalid_argument, "cannot {} {}: {}", what, name, std::generic_category().message(error));
}

/// Closes the file at the end of the scope; the mapping remains valid.
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

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Use use) : name_(path.string()) {
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

}  // namespace lockstep::input
