// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "shortages/resources.hpp"

#include "virtual_time/real.hpp"
#include "virtual_time/shortages.hpp"
#include "virtual_time/stack.hpp"
#include "virtual_time/virtual_time.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace lockstep::shortages {
namespace {

constexpr std::array<std::string_view, kinds> names{"memory", "thread",      "descriptor", "mapping",
                                                    "write",  "short_write", "sync",       "rename"};

// The threads of a run take turns, so these need no lock.
constinit bool is_armed = false;
constinit bool failed = false;
constinit bool prints_stacks = false;
constinit Kind armed_kind{};
constinit long left = -1;  // calls before the one that fails; negative: none fails
constinit std::array<long, kinds> counts{};

constinit std::atomic<long> live_allocations{0};
constinit std::atomic<long> live_mappings{0};

/// Counts a call; whether it fails.
bool lacks(Kind kind) noexcept {
  if (!is_armed || virtual_time::group() != group_of_shortage) return false;
  ++counts[static_cast<std::size_t>(kind)];
  if (kind != armed_kind || left < 0 || left-- > 0) return false;
  failed = true;
  if (prints_stacks) virtual_time::detail::print_this_stack();
  return true;
}

int at_thread() noexcept { return lacks(Kind::thread) ? EAGAIN : 0; }

int at_write(int, std::size_t& bytes) noexcept {
  if (lacks(Kind::write)) return ENOSPC;
  if (bytes > 1 && lacks(Kind::short_write)) bytes /= 2;
  return 0;
}

constexpr virtual_time::Shortages hooks{at_thread, at_write};

}  // namespace

std::string_view to_string(Kind kind) noexcept { return names[static_cast<std::size_t>(kind)]; }

std::optional<Kind> kind_of(std::string_view name) noexcept {
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Kind>(found - names.begin());
}

Shortage::Shortage(Kind kind, std::optional<long> k) noexcept {
  virtual_time::shortages = &hooks;
  armed_kind = kind;
  left = k.value_or(-1);
  counts = {};
  failed = false;
  is_armed = true;
}

Shortage::~Shortage() {
  is_armed = false;
  virtual_time::shortages = nullptr;
}

std::array<long, kinds> counted() noexcept { return counts; }
bool has_failed() noexcept { return failed; }
void print_stacks_of_failures() noexcept { prints_stacks = true; }

Held held() {
  Held now{live_allocations.load(), live_mappings.load(), 0};
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) std::abort();
  while (readdir(folder) != nullptr) ++now.descriptors;
  closedir(folder);
  return now;
}

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (lacks(Kind::memory)) throw std::bad_alloc();
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  live_allocations.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void free_block(void* block) noexcept {
  if (block == nullptr) return;
  live_allocations.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}

/// Whether the call of a function that returns a descriptor fails.
bool lacks_descriptor() noexcept {
  if (!lacks(Kind::descriptor)) return false;
  errno = EMFILE;
  return true;
}

bool fails(Kind kind, int error) noexcept {
  if (!lacks(kind)) return false;
  errno = error;
  return true;
}

VIRTUAL_TIME_REAL(openat);
VIRTUAL_TIME_REAL(fopen);
VIRTUAL_TIME_REAL(opendir);
VIRTUAL_TIME_REAL(memfd_create);
VIRTUAL_TIME_REAL(dup);
VIRTUAL_TIME_REAL(pipe);
VIRTUAL_TIME_REAL(pipe2);
VIRTUAL_TIME_REAL(epoll_create);
VIRTUAL_TIME_REAL(epoll_create1);
VIRTUAL_TIME_REAL(eventfd);
VIRTUAL_TIME_REAL(socket);
VIRTUAL_TIME_REAL(mmap);
VIRTUAL_TIME_REAL(munmap);
VIRTUAL_TIME_REAL(pwrite);
VIRTUAL_TIME_REAL(fsync);
VIRTUAL_TIME_REAL(fdatasync);
VIRTUAL_TIME_REAL(rename);

/// The mode of open and openat, which is an argument only if a file may be created.
mode_t mode_of(int flags, std::va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

ssize_t pwrite_if_there_is_space(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  if (const int error = at_write(descriptor, bytes)) {
    errno = error;
    return -1;
  }
  return real_pwrite(descriptor, data, bytes, offset);
}

}  // namespace
}  // namespace lockstep::shortages

using namespace lockstep::shortages;

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
// not inlined: the compiler would warn of a mismatch between allocation and deallocation functions
[[gnu::noinline]] void operator delete(void* block) noexcept { free_block(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { free_block(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { free_block(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept { free_block(block); }

// with _FILE_OFFSET_BITS=64, as the library is compiled, these define open64 and so on
extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return lacks_descriptor() ? -1 : real_openat(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return lacks_descriptor() ? -1 : real_openat(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) { return lacks_descriptor() ? nullptr : real_fopen(path, mode); }
DIR* opendir(const char* path) { return lacks_descriptor() ? nullptr : real_opendir(path); }
int memfd_create(const char* name, unsigned flags) noexcept {
  return lacks_descriptor() ? -1 : real_memfd_create(name, flags);
}
int dup(int descriptor) noexcept { return lacks_descriptor() ? -1 : real_dup(descriptor); }
int pipe(int* ends) noexcept { return lacks_descriptor() ? -1 : real_pipe(ends); }
int pipe2(int* ends, int flags) noexcept { return lacks_descriptor() ? -1 : real_pipe2(ends, flags); }
int epoll_create(int size) noexcept { return lacks_descriptor() ? -1 : real_epoll_create(size); }
int epoll_create1(int flags) noexcept { return lacks_descriptor() ? -1 : real_epoll_create1(flags); }
int eventfd(unsigned value, int flags) noexcept { return lacks_descriptor() ? -1 : real_eventfd(value, flags); }
int socket(int domain, int type, int protocol) noexcept {
  return lacks_descriptor() ? -1 : real_socket(domain, type, protocol);
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (fails(Kind::mapping, ENOMEM)) return MAP_FAILED;
  void* const mapped = real_mmap(address, bytes, protection, flags, file, offset);
  if (mapped != MAP_FAILED && (flags & MAP_FIXED) == 0) live_mappings.fetch_add(1, std::memory_order_relaxed);
  return mapped;
}
int munmap(void* address, std::size_t bytes) noexcept {
  live_mappings.fetch_sub(1, std::memory_order_relaxed);
  return real_munmap(address, bytes);
}

ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  return pwrite_if_there_is_space(descriptor, data, bytes, offset);
}
int fsync(int descriptor) { return fails(Kind::sync, EIO) ? -1 : real_fsync(descriptor); }
int fdatasync(int descriptor) { return fails(Kind::sync, EIO) ? -1 : real_fdatasync(descriptor); }
int rename(const char* from, const char* to) noexcept {
  return fails(Kind::rename, ENOSPC) ? -1 : real_rename(from, to);
}

}  // extern "C"
