// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/arena.hpp"

#include "base/check.hpp"
#include "base/processor.hpp"
#include "base/random_word.hpp"

#include <lockstep/device/arena_pmr.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>

namespace lockstep {
namespace detail {
namespace {

/// The minimum growth of the arena, so that small tensors do not each cause a system call.
constexpr std::size_t growth_bytes = std::size_t{1} << 20;
/// The maximum reservation. It is enough for any program. A process maps the arenas of all ranks of its node: 100
/// arenas of this size fit into an address space.
constexpr std::size_t most_reserved_bytes = std::size_t{1} << 40;
/// Pages become private in steps of this size: after each step, the memory of the original pages is freed.
constexpr std::size_t unshare_step_bytes = std::size_t{64} << 20;
/// The number of free ranges that are tried for a block that must begin at a page boundary. If none of them fits,
/// a range that is larger by one page is used.
constexpr int most_tries = 8;

/// Gives the calling process a separate copy of each page of a private mapping, without a change of any byte.
void break_copy_on_write(std::byte* data, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::size_t at = 0; at < bytes; at += page_bytes()) {
    // another thread may write to the byte at the same time
    const std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(data + at));
    unsigned char value = byte.load(std::memory_order_relaxed);
    while (!byte.compare_exchange_weak(value, value, std::memory_order_relaxed)) {}
  }
}

using Ranges = std::map<std::size_t, std::size_t>;

/// The first of `ranges` that overlaps [begin, end); the end of `ranges` if there is none.
Ranges::const_iterator first_overlap(const Ranges& ranges, std::size_t begin, std::size_t end) {
  auto range = ranges.upper_bound(begin);
  if (range != ranges.begin() && std::prev(range)->first + std::prev(range)->second > begin) return std::prev(range);
  return range != ranges.end() && range->first < end ? range : ranges.end();
}

/// Adds [begin, end), which overlaps none of `ranges`.
void add_range(Ranges& ranges, std::size_t begin, std::size_t end) {
  const auto next = ranges.lower_bound(begin);
  if (next != ranges.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
    std::prev(next)->second += end - begin;
  } else {
    ranges.emplace_hint(next, begin, end - begin);
  }
}

std::size_t physical_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : growth_bytes;
}

/// The number of bytes to reserve. If address space is limited, leaves enough of it for the arenas of the other ranks.
std::size_t reserved_bytes() {
  const std::size_t most = std::min(physical_bytes(), most_reserved_bytes);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<std::size_t>(most, limit.rlim_cur / 16);
}

/// The smallest size of a segment that is useful.
constexpr std::size_t least_bytes = std::size_t{16} << 20;

/// Creates a memory file without a name. Returns -1 and sets errno if the system does not permit such a file.
int open_memory_file(std::string_view& kind) {
  kind = "memfd";
  const int file = memfd_create("lockstep-arena", MFD_CLOEXEC);
  if (file >= 0) return file;
  kind = "/dev/shm";
  return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/// Gives [offset, offset + bytes) of `file` memory. Returns false if the file system is full.
bool allocate(int file, std::size_t offset, std::size_t bytes) noexcept {
  // a call that a signal interrupts has done nothing, so shorter pieces are tried: they fit between the signals of a
  // timer
  constexpr int most_interruptions = 1000;  // in succession
  std::size_t piece = bytes;
  int interruptions = 0;
  while (bytes > 0) {
    piece = std::min(piece, bytes);
    const int error = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(piece));
    if (error == EINTR && ++interruptions < most_interruptions) {
      piece = std::max(round_up(piece / 2, page_bytes()), page_bytes());
      continue;
    }
    if (error != 0) return false;
    interruptions = 0;
    offset += piece;
    bytes -= piece;
  }
  return true;
}

std::byte* map(int file, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) return nullptr;
  // optional, so failures are ignored: use huge pages, and exclude this large mapping from core files
  static_cast<void>(madvise(data, bytes, MADV_HUGEPAGE));
  static_cast<void>(madvise(data, bytes, MADV_DONTDUMP));
  return static_cast<std::byte*>(data);
}

}  // namespace

std::size_t page_bytes() noexcept {
  const long page = sysconf(_SC_PAGESIZE);
  return page > 0 ? static_cast<std::size_t>(page) : 4096;
}

std::shared_ptr<SharedSegment> SharedSegment::create(std::size_t bytes, std::string& why) {
  std::string_view kind;
  const int file = open_memory_file(kind);
  if (file < 0) {
    why = fmt::format("cannot create a memory file: {}", std::strerror(errno));
    return nullptr;
  }
  rlimit limit{};
  // if a file exceeds this limit, the system does not return an error but kills the process
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    bytes = static_cast<std::size_t>(limit.rlim_cur) / header_bytes * header_bytes;
  }
  if (bytes < least_bytes) {
    why =
        fmt::format("cannot reserve {} MiB of shared memory: the process's limits (ulimit -v, ulimit -f) leave {} MiB",
                    least_bytes >> 20, bytes >> 20);
    close(file);
    return nullptr;
  }
  while (bytes >= least_bytes) {
    if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
      if (std::byte* const data = map(file, bytes)) {
        std::shared_ptr<SharedSegment> segment = own(data, bytes, file, {random_word(), bytes, getpid(), file});
        if (!segment->populate(0, header_bytes)) {
          why = fmt::format("out of memory for {}", kind);
          return nullptr;
        }
        std::memcpy(data, &segment->name_.nonce, sizeof(std::uint64_t));
        why = kind;
        return segment;
      }
    }
    bytes /= 2;  // the limits on address space or file size may allow a smaller segment
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
  // in another container, the same process id may belong to another process: check the nonce before mapping
  std::uint64_t nonce = 0;
  const bool is_right = pread(file, &nonce, sizeof(nonce), 0) == sizeof(nonce) && nonce == name.nonce;
  std::byte* const data = is_right ? map(file, name.bytes) : nullptr;
  if (data == nullptr) {
    const int error_number = errno;
    close(file);
    why = is_right ? fmt::format("cannot map {}: {}", path, std::strerror(error_number))
                   : fmt::format("{} is not the memory of that rank; the ranks may be in different process namespaces",
                                 path);
    return nullptr;
  }
  close(file);
  return own(data, name.bytes, -1, name);
}

std::shared_ptr<SharedSegment> SharedSegment::own(std::byte* data, std::size_t size, int file,
                                                  const SegmentName& name) {
  auto* const segment = new (std::nothrow) SharedSegment(data, size, file, name);
  if (segment == nullptr) {
    munmap(data, size);
    if (file >= 0) close(file);
    throw std::bad_alloc();
  }
  return std::shared_ptr<SharedSegment>(segment);  // deletes it if it throws
}

SharedSegment::~SharedSegment() {
  munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

bool SharedSegment::populate(std::size_t offset, std::size_t bytes) noexcept {
  // if the file system is full, this call fails; without it, the first access would raise a signal
  if (!allocate(file_, offset, bytes)) return false;
#ifdef MADV_POPULATE_WRITE
  if (madvise(data_ + offset, bytes, MADV_POPULATE_WRITE) == 0) return true;
#endif
  const std::size_t page = page_bytes();
  for (std::size_t at = offset; at < offset + bytes; at += page) {
    auto* const touched = reinterpret_cast<volatile unsigned char*>(data_ + at);
    *touched = *touched;
  }
  return true;
}

// map_private maps the same file instead of new memory. The system then copies a page at the first write to the page.
// So no write of another thread is lost between a copy of the page and the change of the mapping.

bool SharedSegment::map_private(std::size_t offset, std::size_t bytes) noexcept {
  return mmap(data_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_,
              static_cast<off_t>(offset)) != MAP_FAILED;
}

void SharedSegment::make_private(std::size_t offset, std::size_t bytes) noexcept {
  LOCKSTEP_CHECK(map_private(offset, bytes));
  break_copy_on_write(data_ + offset, bytes);
}

void SharedSegment::make_private_in_child(std::size_t offset, std::size_t bytes) noexcept {
  if (!map_private(offset, bytes)) munmap(data_ + offset, bytes);  // then no other process can see a write
}

void SharedSegment::discard_shared(std::size_t offset, std::size_t bytes) noexcept {
  static_cast<void>(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                              static_cast<off_t>(bytes)));  // if this fails, the pages stay until the process ends
}

void SharedSegment::discard_private(std::size_t offset, std::size_t bytes) noexcept {
  static_cast<void>(madvise(data_ + offset, bytes, MADV_DONTNEED));
}

Arena::Arena(std::size_t bytes) : page_bytes_(detail::page_bytes()) {
  segment_ = SharedSegment::create(round_up(bytes, huge_page_bytes), text_);
  if (!segment_) return;
  base_ = segment_->data();
  limit_ = segment_->size();
  populated_ = SharedSegment::header_bytes;
}

Arena& Arena::of_this_process() {
  static Arena* const arena = [] {
    auto* const made = new Arena(reserved_bytes());
    static Arena* const at_fork = made;
    static_cast<void>(pthread_atfork([] { at_fork->before_fork(); }, [] { at_fork->after_fork_in_parent(); },
                                     [] { at_fork->after_fork_in_child(); }));
    return made;
  }();
  return *arena;
}

/// In the child, inherited blocks stay at their addresses, but become private copies. The child frees no inherited
/// block and gets no new block. The blocks of a child of the child are private already.
void Arena::after_fork_in_child() {
  if (is_copy_.exchange(true, std::memory_order_relaxed)) {
    mutex_.unlock();
    return;
  }
  std::size_t begin = 0;
  for (const auto& [offset, bytes] : private_) {  // private pages are copies already
    if (begin < offset) segment_->make_private_in_child(begin, offset - begin);
    begin = offset + bytes;
  }
  if (begin < populated_) segment_->make_private_in_child(begin, populated_ - begin);
  mutex_.unlock();
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

std::size_t Arena::block_bytes(std::size_t bytes) const noexcept {
  bytes = round_up(std::max<std::size_t>(bytes, 1), MemoryResource::alignment);
  return bytes < page_bytes_ ? bytes : round_up(bytes, page_bytes_);
}

/// The offset at which a block of `bytes` bytes begins in the free range at `free_offset`.
std::size_t Arena::begin_in(std::size_t free_offset, std::size_t bytes) const noexcept {
  return bytes < page_bytes_ ? free_offset : round_up(free_offset, page_bytes_);
}

Arena::Ranges::iterator Arena::best_free(std::size_t bytes) {
  auto best = free_by_size_.lower_bound({bytes, 0});
  for (int tries = 0; best != free_by_size_.end(); ++best) {
    if (begin_in(best->second, bytes) + bytes <= best->second + best->first) return free_by_offset_.find(best->second);
    if (++tries == most_tries) break;
  }
  best = free_by_size_.lower_bound({bytes + page_bytes_, 0});
  return best == free_by_size_.end() ? free_by_offset_.end() : free_by_offset_.find(best->second);
}

void* Arena::allocate(std::size_t bytes) {
  if (!segment_ || bytes > limit_ || is_copy_.load(std::memory_order_relaxed)) return nullptr;
  bytes = block_bytes(bytes);
  const MutexLock lock(mutex_);
  auto best = best_free(bytes);
  if (best == free_by_offset_.end()) {
    if (!grow(bytes)) return nullptr;
    best = best_free(bytes);
  }
  const auto [offset, size] = *best;
  const std::size_t begin = begin_in(offset, bytes);
  remove_free(best);
  if (begin > offset) add_free(offset, begin - offset);
  if (offset + size > begin + bytes) add_free(begin + bytes, offset + size - begin - bytes);
  used_ += bytes;
  return base_ + begin;
}

void Arena::deallocate(void* block, std::size_t bytes) noexcept {
  if (is_copy_.load(std::memory_order_relaxed)) return;
  bytes = block_bytes(bytes);
  std::size_t begin = offset_of(block);
  const std::size_t end = begin + bytes;
  const MutexLock lock(mutex_);
  frees_.fetch_add(1, std::memory_order_release);
  used_ -= bytes;
  try {
    while (begin < end) {
      const auto next = first_overlap(private_, begin, end);
      const std::size_t next_begin = next == private_.end() ? end : next->first;
      if (begin < next_begin) add_free_merged(begin, next_begin - begin);
      if (next == private_.end()) break;
      const std::size_t next_end = std::min(end, next->first + next->second);
      quarantine(std::max(begin, next_begin), next_end);
      begin = next_end;
    }
  } catch (const std::bad_alloc&) {
    return;  // the lists of ranges cannot grow: what is not in them yet is never used again
  }
}

bool Arena::is_allocated(const void* data, std::size_t bytes) const {
  if (!contains(data, bytes)) return false;
  const std::size_t begin = offset_of(data);
  const std::size_t end = begin + std::max<std::size_t>(bytes, 1);
  const MutexLock lock(mutex_);
  return begin + bytes <= populated_ && first_overlap(free_by_offset_, begin, end) == free_by_offset_.end() &&
         first_overlap(quarantined_, begin, end) == quarantined_.end();
}

bool Arena::is_shared(const void* data, std::size_t bytes) const noexcept {
  if (!contains(data, bytes)) return false;
  if (unshares() == 0) return true;
  const std::size_t begin = offset_of(data);
  const MutexLock lock(mutex_);
  return first_overlap(private_, begin, begin + bytes) == private_.end();
}

void Arena::unshare(std::span<const std::span<std::byte>> ranges) noexcept {
  const MutexLock lock(mutex_);
  unshares_.fetch_add(1, std::memory_order_seq_cst);
  for (const auto& range : ranges) {
    if (range.empty() || !contains(range.data(), range.size())) continue;
    const std::size_t begin = offset_of(range.data());
    const std::size_t end = begin + range.size();
    const std::size_t first = begin / page_bytes_ * page_bytes_;
    const std::size_t last = round_up(end, page_bytes_);
    // the first and the last page may contain other blocks, which other processes still read through the file
    const std::size_t inner = std::min(round_up(begin, page_bytes_), last);
    const std::size_t inner_end = std::max(end / page_bytes_ * page_bytes_, inner);
    unshare_pages(first, inner, Originals::keep);
    unshare_pages(inner, inner_end, Originals::discard);
    unshare_pages(inner_end, last, Originals::keep);
  }
}

void Arena::unshare_pages(std::size_t begin, std::size_t end, Originals originals) {
  while (begin < end) {
    const auto next = first_overlap(private_, begin, end);
    if (next != private_.end() && next->first <= begin) {
      begin = next->first + next->second;
      continue;
    }
    const std::size_t stop = std::min(next == private_.end() ? end : next->first, begin + unshare_step_bytes);
    segment_->make_private(begin, stop - begin);
    if (originals == Originals::discard) segment_->discard_shared(begin, stop - begin);
    add_range(private_, begin, stop);
    quarantine_free(begin, stop);
    begin = stop;
  }
}

/// Quarantines the free ranges in [begin, end), which has become private, so that no block gets them.
void Arena::quarantine_free(std::size_t begin, std::size_t end) {
  for (auto next = first_overlap(free_by_offset_, begin, end); next != free_by_offset_.end();
       next = first_overlap(free_by_offset_, begin, end)) {
    const auto [offset, bytes] = *next;
    remove_free(free_by_offset_.find(offset));
    if (offset < begin) add_free(offset, begin - offset);
    if (offset + bytes > end) add_free(end, offset + bytes - end);
    quarantine(std::max(offset, begin), std::min(offset + bytes, end));
  }
}

/// Frees the memory of [begin, end), which is free and private, and never uses its addresses again.
void Arena::quarantine(std::size_t begin, std::size_t end) {
  add_range(quarantined_, begin, end);
  const std::size_t first = round_up(begin, page_bytes_);
  const std::size_t last = end / page_bytes_ * page_bytes_;
  if (first < last) segment_->discard_private(first, last - first);
}

void Arena::add_free_merged(std::size_t offset, std::size_t bytes) {
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

void Arena::add_free(std::size_t offset, std::size_t bytes) {
  const auto added = free_by_offset_.emplace(offset, bytes).first;
  try {
    free_by_size_.emplace(bytes, offset);
  } catch (...) {
    free_by_offset_.erase(added);
    throw;
  }
}

void Arena::remove_free(Ranges::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_by_offset_.erase(range);
}

bool Arena::grow(std::size_t bytes) {
  std::size_t begin = populated_;
  // a free range at the end becomes part of the new free range
  if (!free_by_offset_.empty()) {
    const auto last = std::prev(free_by_offset_.end());
    if (last->first + last->second == populated_) begin = last->first;
  }
  const std::size_t block_end = begin_in(begin, bytes) + bytes;
  const std::size_t end = std::min(round_up(std::max(block_end, populated_ + growth_bytes), growth_bytes), limit_);
  if (end < block_end || !segment_->populate(populated_, end - populated_)) return false;
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
  static auto* const resource = new ArenaPmrResource;  // static containers may free memory during the exit
  return resource;
}

ArenaStatus arena_status() { return Arena::of_this_process().status(); }

bool is_in_arena(const void* data, std::size_t bytes) noexcept {
  return Arena::of_this_process().contains(data, bytes);
}

}  // namespace lockstep
