// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/arena.hpp"

#include "base/processor.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <random>
#include <string_view>

namespace lockstep {
namespace detail {
namespace {

/// The minimum growth of the arena, so that small tensors do not each cause a system call.
constexpr std::size_t growth_bytes = std::size_t{1} << 20;
/// The maximum reservation. Each process maps the arenas of all ranks of its node: this is enough for any program, and
/// 100 of them still fit into an address space.
constexpr std::size_t most_reserved_bytes = std::size_t{1} << 40;

std::size_t physical_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : growth_bytes;
}

/// If address space is limited, leaves enough of it to map the arenas of the other ranks.
std::size_t reserved_bytes() {
  const std::size_t most = std::min(physical_bytes(), most_reserved_bytes);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<std::size_t>(most, limit.rlim_cur / 16);
}

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

Arena::Arena(std::size_t bytes) {
  segment_ = SharedSegment::create(round_up(bytes, huge_page_bytes), text_);
  if (!segment_) return;
  base_ = segment_->data();
  limit_ = segment_->size();
  populated_ = SharedSegment::header_bytes;
}

Arena& Arena::of_this_process() {
  static auto* const arena = new Arena(reserved_bytes());
  return *arena;
}

ArenaStatus Arena::status() const {
  const MutexLock lock(mutex_);
  ArenaStatus status;
  status.is_available = segment_ != nullptr;
  status.reserved_bytes = limit_;
  status.populated_bytes = populated_;
  status.used_bytes = used_;
  status.text =
      segment_ ? fmt::format("{}, {:.1f} GiB reserved", text_, static_cast<double>(limit_) / (1 << 30)) : text_;
  return status;
}

void* Arena::allocate(std::size_t bytes) {
  if (!segment_ || bytes > limit_) return nullptr;
  bytes = round_up(std::max<std::size_t>(bytes, 1), MemoryResource::alignment);
  const MutexLock lock(mutex_);
  auto best = free_by_size_.lower_bound({bytes, 0});
  if (best == free_by_size_.end()) {
    if (!grow(bytes)) return nullptr;
    best = free_by_size_.lower_bound({bytes, 0});
  }
  const auto [size, offset] = *best;
  remove_free(free_by_offset_.find(offset));
  if (size > bytes) add_free(offset + bytes, size - bytes);
  used_ += bytes;
  return base_ + offset;
}

void Arena::deallocate(void* block, std::size_t bytes) noexcept {
  bytes = round_up(std::max<std::size_t>(bytes, 1), MemoryResource::alignment);
  auto offset = static_cast<std::size_t>(static_cast<std::byte*>(block) - base_);
  const MutexLock lock(mutex_);
  frees_.fetch_add(1, std::memory_order_release);
  used_ -= bytes;
  const auto next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      remove_free(previous);
    }
  }
  if (next != free_by_offset_.end() && offset + bytes == next->first) {
    bytes += next->second;
    remove_free(next);
  }
  add_free(offset, bytes);
}

bool Arena::is_allocated(const void* data, std::size_t bytes) const {
  if (!contains(data, bytes)) return false;
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
  const MutexLock lock(mutex_);
  if (begin + bytes > populated_) return false;
  // the first free range after the beginning of the block
  auto range = free_by_offset_.upper_bound(begin);
  if (range != free_by_offset_.begin() && std::prev(range)->first + std::prev(range)->second > begin) return false;
  return range == free_by_offset_.end() || range->first >= begin + bytes;
}

void Arena::add_free(std::size_t offset, std::size_t bytes) {
  free_by_offset_.emplace(offset, bytes);
  free_by_size_.emplace(bytes, offset);
}

void Arena::remove_free(std::map<std::size_t, std::size_t>::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_by_offset_.erase(range);
}

bool Arena::grow(std::size_t bytes) {
  std::size_t begin = populated_;
  // a free range at the end is used as well
  if (!free_by_offset_.empty()) {
    const auto last = std::prev(free_by_offset_.end());
    if (last->first + last->second == populated_) begin = last->first;
  }
  const std::size_t end = std::min(round_up(std::max(begin + bytes, populated_ + growth_bytes), growth_bytes), limit_);
  if (end < begin + bytes || !segment_->populate(populated_, end - populated_)) return false;
  if (begin < populated_) remove_free(free_by_offset_.find(begin));
  add_free(begin, end - begin);
  populated_ = end;
  return true;
}

}  // namespace detail

namespace {

using detail::Arena;

class ArenaMemoryResource final : public MemoryResource {
 public:
  ArenaMemoryResource() : heap_(heap_memory_resource()) {}

 private:
  void* do_allocate(std::size_t bytes) override {
    void* const block = Arena::of_this_process().allocate(bytes);
    return block != nullptr ? block : heap_->allocate(bytes);
  }
  void do_deallocate(void* block, std::size_t bytes) noexcept override {
    Arena& arena = Arena::of_this_process();
    arena.contains(block, bytes) ? arena.deallocate(block, bytes) : heap_->deallocate(block, bytes);
  }

  std::shared_ptr<MemoryResource> heap_;
};

class ArenaPmrResource final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > MemoryResource::alignment) throw std::bad_alloc();
    return resource_->allocate(bytes);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t) override { resource_->deallocate(block, bytes); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::shared_ptr<MemoryResource> resource_ = arena_memory_resource();
};

}  // namespace

std::shared_ptr<MemoryResource> arena_memory_resource() {
  static const auto* const resource = new std::shared_ptr<MemoryResource>(std::make_shared<ArenaMemoryResource>());
  return *resource;
}

std::pmr::memory_resource* arena_pmr_resource() {
  static auto* const resource = new ArenaPmrResource;  // containers with static lifetime may free their memory late
  return resource;
}

ArenaStatus arena_status() { return Arena::of_this_process().status(); }

bool is_in_arena(const void* data, std::size_t bytes) noexcept {
  return Arena::of_this_process().contains(data, bytes);
}

}  // namespace lockstep
