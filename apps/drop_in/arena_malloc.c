/* SPDX-FileCopyrightText: The lockstep authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * liblockstep_malloc.so, which a program may preload beside liblockstep_mpi.so: from MPI_Init on, blocks of at least
 * `least_bytes` that the program allocates (malloc, new, ALLOCATE, arrays of NumPy) are in the arena of lockstep, so
 * that collectives read and write them in place. All other blocks come from the C library, by its names __libc_malloc,
 * and so on: dlsym, which would find the next malloc, allocates itself.
 *
 * A block of the arena has a header in the 64 bytes before it. */

#include "drop_in/calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

EXPORT size_t malloc_usable_size(void* block);
EXPORT void* memalign(size_t alignment, size_t bytes);

enum { line_bytes = 64 };

/* Smaller blocks are copied fast, and the arena is slower than malloc. */
static const size_t least_bytes = (size_t)64 << 10;

struct header {
  alignas(line_bytes) size_t bytes; /* that the program may use */
  void* whole;                      /* what the arena returned */
  size_t whole_bytes;
};
_Static_assert(sizeof(struct header) == line_bytes, "blocks of the arena are aligned to lines");

static _Atomic(const struct lockstep_arena*) arena; /* NULL before MPI_Init */
static __thread int is_inside __attribute__((tls_model("initial-exec"))); /* the arena itself allocates */

EXPORT void lockstep_malloc_use(const struct lockstep_arena* from_now) {
  atomic_store_explicit(&arena, from_now, memory_order_release);
}

static struct header* header_of(void* block) { return (struct header*)((char*)block - line_bytes); }

/* The arena, if it has `block`; otherwise NULL. */
static const struct lockstep_arena* arena_of(const void* block) {
  if ((uintptr_t)block % line_bytes != 0) return NULL;
  const struct lockstep_arena* const used = atomic_load_explicit(&arena, memory_order_acquire);
  return used != NULL && used->contains(block) ? used : NULL;
}

/* A block of the arena; NULL if the C library must serve the call. `alignment` is a power of two. */
static void* arena_block(size_t alignment, size_t bytes) {
  if (bytes < least_bytes || bytes > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4 || is_inside) return NULL;
  const struct lockstep_arena* const used = atomic_load_explicit(&arena, memory_order_acquire);
  if (used == NULL) return NULL;
  const int error = errno;
  const size_t whole_bytes = bytes + line_bytes + (alignment > line_bytes ? alignment : 0);
  is_inside = 1;
  char* const whole = used->allocate(whole_bytes);
  is_inside = 0;
  errno = error;
  if (whole == NULL) return NULL;
  char* block = whole + line_bytes;
  if (alignment > line_bytes) block += (alignment - (uintptr_t)block % alignment) % alignment;
  *header_of(block) = (struct header){bytes, whole, whole_bytes};
  return block;
}

static void free_in(const struct lockstep_arena* used, void* block) {
  const struct header header = *header_of(block);
  const int error = errno;
  is_inside = 1;
  used->deallocate(header.whole, header.whole_bytes);
  is_inside = 0;
  errno = error;
}

EXPORT void* malloc(size_t bytes) {
  void* const block = arena_block(1, bytes);
  return block != NULL ? block : __libc_malloc(bytes);
}

EXPORT void free(void* block) {
  const struct lockstep_arena* const used = arena_of(block);
  used != NULL ? free_in(used, block) : __libc_free(block);
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
  const struct lockstep_arena* const used = arena_of(block);
  if (used == NULL && (block == NULL || bytes < least_bytes)) return block == NULL ? malloc(bytes) : __libc_realloc(block, bytes);
  if (bytes == 0) {
    free(block);
    return NULL;
  }
  const size_t old_bytes = malloc_usable_size(block);
  if (used != NULL && bytes <= old_bytes && bytes >= old_bytes / 2) return block;
  void* const other = used != NULL ? malloc(bytes) : arena_block(1, bytes);
  if (other == NULL) return used != NULL ? NULL : __libc_realloc(block, bytes);
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
  if (arena_of(block) != NULL) return header_of(block)->bytes;
  static _Atomic(void*) next;
  void* found = atomic_load_explicit(&next, memory_order_relaxed);
  if (found == NULL) {
    found = dlsym(RTLD_NEXT, "malloc_usable_size");
    atomic_store_explicit(&next, found, memory_order_relaxed);
  }
  size_t (*call)(void*) = NULL;
  memcpy((void*)&call, (const void*)&found, sizeof found);
  return call(block);
}
