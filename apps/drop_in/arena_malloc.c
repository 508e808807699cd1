/* SPDX-FileCopyrightText: The lockstep authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * liblockstep_malloc.so, which a program may preload after liblockstep_mpi.so: from MPI_Init on, blocks of at least
 * `least_bytes` that the program allocates (malloc, new, ALLOCATE, arrays of NumPy) are in the arena of lockstep, where
 * collectives read and write them in place. The allocator of glibc serves all other calls, under its names __libc_malloc
 * etc.: looking for another malloc by dlsym would call malloc. A program that links another allocator, such as jemalloc,
 * gets that of glibc.
 *
 * Fork: the handlers of this file are registered after those of the arena, so that they enclose the time in which the
 * arena is locked. In that time, this thread gets no block of the arena, and what it frees waits. A child process gets
 * no block, and frees none: the parent may have reused the address. */

#include "drop_in/calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define OF_THREAD __thread __attribute__((tls_model("initial-exec")))

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void* __libc_valloc(size_t bytes);
void* __libc_pvalloc(size_t bytes);
void __libc_free(void* block);

EXPORT size_t malloc_usable_size(void* block);
EXPORT void* memalign(size_t alignment, size_t bytes);

/* Smaller blocks are copied fast, and malloc is faster than the arena. */
static const size_t least_bytes = (size_t)64 << 10;
static const uint64_t magic = 0x6c6f636b73746570;

enum { line_bytes = 64, page_bytes = 4096 };

/* The line before a block of the arena. */
struct header {
  uint64_t mark; /* its own address, combined with `magic`; 0 after the block has been freed */
  size_t bytes;  /* that the program may use */
  void* whole;   /* what the arena returned */
  size_t whole_bytes;
  struct header* next; /* of the blocks that wait to be freed */
  char rest[line_bytes - 5 * sizeof(void*)];
};
_Static_assert(sizeof(struct header) == line_bytes, "blocks of the arena are aligned to lines");

static _Atomic(const struct lockstep_arena*) arena; /* NULL before MPI_Init */
static atomic_int is_child;                         /* of fork, after MPI_Init */
static OF_THREAD int is_inside;                     /* this thread is in a call of the arena, which allocates */
static OF_THREAD int is_forking;
static OF_THREAD struct header* waiting; /* blocks that this thread has freed while it was forking */

static struct header* header_of(void* block) { return (struct header*)((char*)block - line_bytes); }

static uint64_t mark_of(const struct header* header) { return (uint64_t)(uintptr_t)header ^ magic; }

/* Ends the process if `block` is not one that the program has. */
static struct header* check(void* block) {
  struct header* const header = header_of(block);
  if (header->mark == mark_of(header)) return header;
  static const char* const text =
      "liblockstep_malloc: a pointer was freed twice, or is not the beginning of a block, or the 64 bytes before the block were overwritten\n";
  fputs(text, stderr);
  abort();
}

/* The arena, if it has `block`; otherwise NULL. */
static const struct lockstep_arena* arena_of(const void* block) {
  if (block == NULL || (uintptr_t)block % line_bytes != 0) return NULL;
  const struct lockstep_arena* const used = atomic_load_explicit(&arena, memory_order_acquire);
  return used != NULL && used->contains(block) ? used : NULL;
}

static void deallocate(const struct lockstep_arena* used, struct header* header) {
  const int error = errno;
  is_inside = 1;
  used->deallocate(header->whole, header->whole_bytes);
  is_inside = 0;
  errno = error;
}

/* A block of the arena; NULL if glibc must serve the call. `alignment` is a power of two. */
static void* arena_block(size_t alignment, size_t bytes) {
  if (bytes < least_bytes || bytes > PTRDIFF_MAX / 2 || alignment > page_bytes || is_inside || is_forking) return NULL;
  const struct lockstep_arena* const used = atomic_load_explicit(&arena, memory_order_acquire);
  if (used == NULL || atomic_load_explicit(&is_child, memory_order_relaxed) != 0) return NULL;
  const size_t before = alignment > line_bytes ? alignment : line_bytes; /* the arena aligns such blocks to pages */
  const size_t whole_bytes = (before + bytes + page_bytes - 1) / page_bytes * page_bytes;
  const int error = errno;
  is_inside = 1;
  char* const whole = used->allocate(whole_bytes);
  is_inside = 0;
  errno = error;
  if (whole == NULL) return NULL;
  char* const block = whole + before;
  struct header* const header = header_of(block);
  *header = (struct header){.mark = mark_of(header), .bytes = whole_bytes - before, .whole = whole, .whole_bytes = whole_bytes};
  return block;
}

static void before_fork(void) { is_forking = 1; }

static void after_fork_in_parent(void) {
  is_forking = 0;
  while (waiting != NULL) {
    struct header* const header = waiting;
    waiting = header->next;
    deallocate(atomic_load_explicit(&arena, memory_order_acquire), header);
  }
}

static void after_fork_in_child(void) {
  atomic_store_explicit(&is_child, 1, memory_order_relaxed);
  is_forking = 0;
  waiting = NULL;
}

EXPORT void lockstep_malloc_use(const struct lockstep_arena* from_now) {
  if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) return;
  atomic_store_explicit(&arena, from_now, memory_order_release);
}

EXPORT void* malloc(size_t bytes) {
  void* const block = arena_block(1, bytes);
  return block != NULL ? block : __libc_malloc(bytes);
}

EXPORT void free(void* block) {
  const struct lockstep_arena* const used = arena_of(block);
  if (used == NULL) {
    __libc_free(block);
    return;
  }
  if (atomic_load_explicit(&is_child, memory_order_relaxed) != 0) return;
  struct header* const header = check(block);
  header->mark = 0;
  if (is_forking) {
    header->next = waiting;
    waiting = header;
    return;
  }
  deallocate(used, header);
}

EXPORT void* calloc(size_t count, size_t bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  void* const block = arena_block(1, all);
  return block != NULL ? memset(block, 0, all) : __libc_calloc(count, bytes);
}

EXPORT void* realloc(void* block, size_t bytes) {
  if (block == NULL) return malloc(bytes);
  const int is_ours = arena_of(block) != NULL;
  const int is_used = atomic_load_explicit(&arena, memory_order_acquire) != NULL;
  if (!is_ours && (!is_used || bytes < least_bytes)) return __libc_realloc(block, bytes);
  if (bytes == 0) {
    free(block);
    return NULL;
  }
  const size_t old_bytes = malloc_usable_size(block);
  if (is_ours && bytes <= old_bytes && bytes >= old_bytes / 2) return block;
  /* a block that grows will grow again */
  const size_t growing = bytes > old_bytes ? old_bytes + old_bytes / 4 : 0;
  void* other = arena_block(1, bytes > growing ? bytes : growing);
  if (other == NULL && !is_ours) return __libc_realloc(block, bytes);
  if (other == NULL) other = __libc_malloc(bytes);
  if (other == NULL) return bytes <= old_bytes ? block : NULL;
  memcpy(other, block, old_bytes < bytes ? old_bytes : bytes);
  free(block);
  return other;
}

EXPORT void* memalign(size_t alignment, size_t bytes) {
  const int is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
  void* const block = is_power ? arena_block(alignment, bytes) : NULL;
  return block != NULL ? block : __libc_memalign(alignment, bytes);
}

EXPORT void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
EXPORT void* valloc(size_t bytes) { return __libc_valloc(bytes); }
EXPORT void* pvalloc(size_t bytes) { return __libc_pvalloc(bytes); }

EXPORT int posix_memalign(void** block, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int error = errno;
  void* const made = memalign(alignment, bytes);
  errno = error;
  if (made == NULL) return ENOMEM;
  *block = made;
  return 0;
}

EXPORT size_t malloc_usable_size(void* block) {
  if (block == NULL) return 0;
  if (arena_of(block) != NULL) return check(block)->bytes;
  static _Atomic(void*) of_glibc;
  void* found = atomic_load_explicit(&of_glibc, memory_order_relaxed);
  if (found == NULL) {
    void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) found = dlsym(library, "malloc_usable_size");
    if (found == NULL) return 0;
    atomic_store_explicit(&of_glibc, found, memory_order_relaxed);
  }
  size_t (*call)(void*) = NULL;
  memcpy((void*)&call, (const void*)&found, sizeof found);
  return call(block);
}
