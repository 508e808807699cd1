// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/shared_segment.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>

namespace lockstep::detail {
namespace {

/// The smallest segment that is useful.
constexpr std::size_t least_bytes = std::size_t{16} << 20;

std::uint64_t new_nonce() {
  std::random_device device;
  const std::uint64_t high = device();
  return (high << 32 | device()) | 1;  // never 0
}

/// Opens a memory file without a name; returns -1 and sets errno if there is none.
int open_memory_file(std::string_view& kind) {
  kind = "memfd";
  const int file = memfd_create("lockstep-arena", MFD_CLOEXEC);
  if (file >= 0) return file;
  kind = "/dev/shm";
  return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

std::byte* map(int file, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) return nullptr;
  // advice only: huge pages if possible, and no core files of the size of the machine's memory
  static_cast<void>(madvise(data, bytes, MADV_HUGEPAGE));
  static_cast<void>(madvise(data, bytes, MADV_DONTDUMP));
  return static_cast<std::byte*>(data);
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(std::size_t bytes, std::string& why) {
  std::string_view kind;
  const int file = open_memory_file(kind);
  if (file < 0) {
    why = fmt::format("cannot create a memory file: {}", std::strerror(errno));
    return nullptr;
  }
  rlimit limit{};
  // the system does not report a file beyond this limit, it kills the process
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    bytes = static_cast<std::size_t>(limit.rlim_cur) / header_bytes * header_bytes;
    errno = EFBIG;
  }
  while (bytes >= least_bytes) {
    if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
      if (std::byte* const data = map(file, bytes)) {
        std::shared_ptr<SharedSegment> segment(
            new SharedSegment(data, bytes, file, {new_nonce(), bytes, getpid(), file}));
        if (!segment->populate(0, header_bytes)) {
          why = fmt::format("out of memory for {}", kind);
          return nullptr;
        }
        std::memcpy(data, &segment->name_.nonce, sizeof(std::uint64_t));
        why = kind;
        return segment;
      }
    }
    bytes /= 2;  // the limits on address space or file size may allow a smaller one
  }
  why = fmt::format("cannot reserve {} MiB of shared memory: {}", least_bytes >> 20, std::strerror(errno));
  close(file);
  return nullptr;
}

std::shared_ptr<SharedSegment> SharedSegment::open(const SegmentName& name, std::string& why) {
  const std::string path = fmt::format("/proc/{}/fd/{}", name.process, name.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    why = fmt::format("cannot open {}: {}", path, std::strerror(errno));
    return nullptr;
  }
  // in another container the same process number may be another process: check the nonce before mapping
  std::uint64_t nonce = 0;
  const bool is_right = pread(file, &nonce, sizeof(nonce), 0) == sizeof(nonce) && nonce == name.nonce;
  std::byte* const data = is_right ? map(file, name.bytes) : nullptr;
  if (data == nullptr) {
    why = is_right ? fmt::format("cannot map {}: {}", path, std::strerror(errno))
                   : fmt::format("{} is not the memory of that rank; the ranks may be in different process namespaces",
                                 path);
    close(file);
    return nullptr;
  }
  close(file);
  return std::shared_ptr<SharedSegment>(new SharedSegment(data, name.bytes, -1, name));
}

SharedSegment::~SharedSegment() {
  munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

bool SharedSegment::populate(std::size_t offset, std::size_t bytes) noexcept {
  // if the file system is full, this fails here instead of raising a signal at the first access
  if (posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) return false;
#ifdef MADV_POPULATE_WRITE
  if (madvise(data_ + offset, bytes, MADV_POPULATE_WRITE) == 0) return true;
#endif
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = offset; at < offset + bytes; at += page) {
    auto* const touched = reinterpret_cast<volatile unsigned char*>(data_ + at);
    *touched = *touched;
  }
  return true;
}

}  // namespace lockstep::detail
