// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions that code compiled for ThreadSanitizer (-fsanitize=thread) calls: they replace its runtime.
// The names are those that clang and GCC use. Also the functions for memory, and for the initialization of local static
// variables, which the C++ library does without telling.

#include "races/detector.hpp"

#include "virtual_time/real.hpp"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

using lockstep::races::active_detector;
using lockstep::races::Detector;
using lockstep::races::if_active;
using lockstep::races::Inside;

inline void access(const void* address, std::size_t bytes, bool is_write, const void* place) {
  if_active([&](Detector& active) { active.access(address, bytes, is_write, place); });
}

template <class T>
std::uint64_t bits(T value) noexcept {
  return static_cast<std::uint64_t>(value);
}

/// The compiler adds bits of its own to the order.
int order_of(int order) noexcept { return order & 0x7fff; }

template <class T>
T load(const volatile T* address, int order, const void* place) {
  const auto* const data = const_cast<const T*>(address);
  Detector* const detector = active_detector();
  if (detector == nullptr) return __atomic_load_n(address, __ATOMIC_SEQ_CST);
  const Inside inside;
  detector->at_atomic(data);
  detector->note_atomic(data, sizeof(T), false, place);
  return static_cast<T>(detector->load(data, bits(__atomic_load_n(address, __ATOMIC_SEQ_CST)), order_of(order)));
}

template <class T>
void store(volatile T* address, T value, int order, const void* place) {
  const auto* const data = const_cast<const T*>(address);
  Detector* const detector = active_detector();
  if (detector == nullptr) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  const Inside inside;
  detector->at_atomic(data);
  detector->note_atomic(data, sizeof(T), true, place);
  const T former = __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);
  detector->store(data, bits(former), bits(value), order_of(order));
}

/// `change` makes the new value of the former one.
template <class T, class Change>
T exchange(volatile T* address, int order, const void* place, const Change& change) {
  const auto* const data = const_cast<const T*>(address);
  Detector* const detector = active_detector();
  if (detector == nullptr) {
    T former = __atomic_load_n(address, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(address, &former, change(former), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    return former;
  }
  const Inside inside;
  detector->at_atomic(data);
  detector->note_atomic(data, sizeof(T), true, place);
  const T former = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  const T value = change(former);
  __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  detector->exchange(data, bits(former), bits(value), order_of(order));
  return former;
}

template <class T>
T compare_exchange(volatile T* address, T expected, T value, int order, int order_of_failure, const void* place) {
  const auto* const data = const_cast<const T*>(address);
  Detector* const detector = active_detector();
  if (detector == nullptr) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
  }
  const Inside inside;
  detector->at_atomic(data);
  const T former = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  detector->note_atomic(data, sizeof(T), former == expected, place);
  // an older value might be the expected one
  if (former != expected) return static_cast<T>(detector->load(data, bits(former), order_of(order_of_failure), true));
  __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  detector->exchange(data, bits(former), bits(value), order_of(order));
  return former;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if_active([](const Detector& active) { active.at_allocation(); });
  void* const data = alignment <= alignof(std::max_align_t)
                         ? std::malloc(bytes)
                         : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data == nullptr) throw std::bad_alloc();
  if_active([&](Detector& active) { active.forget(data, bytes); });
  return data;
}

/// No other thread uses the memory any more. Its next owner may not report the allocation, such as C code or an
/// exception.
void release(void* data, std::size_t bytes, const void* place) noexcept {
  if (data == nullptr) return;
  if_active([&](Detector& active) {
    active.access(data, bytes, true, place);
    active.forget(data, bytes);
  });
  std::free(data);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

#define PLACE __builtin_return_address(0)

#define ACCESSES(bytes)                                                                                 \
  extern "C" void __tsan_read##bytes(void* address) { access(address, bytes, false, PLACE); }           \
  extern "C" void __tsan_write##bytes(void* address) { access(address, bytes, true, PLACE); }           \
  extern "C" void __tsan_unaligned_read##bytes(void* address) { access(address, bytes, false, PLACE); } \
  extern "C" void __tsan_unaligned_write##bytes(void* address) { access(address, bytes, true, PLACE); } \
  extern "C" void __tsan_read_write##bytes(void* address) { access(address, bytes, true, PLACE); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
void __tsan_read_range(void* address, std::size_t bytes) { access(address, bytes, false, PLACE); }
void __tsan_write_range(void* address, std::size_t bytes) { access(address, bytes, true, PLACE); }
void __tsan_vptr_read(const void* address) { access(address, sizeof(void*), false, PLACE); }
void __tsan_vptr_update(const void* address, const void* value) {
  if (std::memcmp(address, static_cast<const void*>(&value), sizeof(value)) != 0)
    access(address, sizeof(void*), true, PLACE);  // destructors of base classes store it again
}

void* __tsan_memcpy(void* target, const void* source, std::size_t bytes) {
  access(source, bytes, false, PLACE);
  access(target, bytes, true, PLACE);
  return std::memcpy(target, source, bytes);
}
void* __tsan_memmove(void* target, const void* source, std::size_t bytes) {
  access(source, bytes, false, PLACE);
  access(target, bytes, true, PLACE);
  return std::memmove(target, source, bytes);
}
void* __tsan_memset(void* target, int value, std::size_t bytes) {
  access(target, bytes, true, PLACE);
  return std::memset(target, value, bytes);
}

void __tsan_atomic_thread_fence(int order) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if_active([order](Detector& active) { active.fence(order_of(order)); });
}
void __tsan_atomic_signal_fence(int) { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // extern "C"

#define CHANGE(bits, name, expression)                                                                  \
  extern "C" std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* address,    \
                                                              std::uint##bits##_t operand, int order) { \
    using T = std::uint##bits##_t;                                                                      \
    return exchange(address, order, PLACE, [operand](T former) {                                        \
      static_cast<void>(former);                                                                        \
      return static_cast<T>(expression);                                                                \
    });                                                                                                 \
  }
#define ATOMICS(bits)                                                                                                  \
  extern "C" std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* address, int order) {  \
    return load(address, order, PLACE);                                                                                \
  }                                                                                                                    \
  extern "C" void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* address, std::uint##bits##_t value,        \
                                              int order) {                                                             \
    store(address, value, order, PLACE);                                                                               \
  }                                                                                                                    \
  CHANGE(bits, exchange, operand)                                                                                      \
  CHANGE(bits, fetch_add, former + operand)                                                                            \
  CHANGE(bits, fetch_sub, former - operand)                                                                            \
  CHANGE(bits, fetch_and, former& operand)                                                                             \
  CHANGE(bits, fetch_or, former | operand)                                                                             \
  CHANGE(bits, fetch_xor, former ^ operand)                                                                            \
  CHANGE(bits, fetch_nand, ~(former & operand))                                                                        \
  extern "C" std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                           \
      volatile std::uint##bits##_t* address, std::uint##bits##_t expected, std::uint##bits##_t value, int order,       \
      int order_of_failure) {                                                                                          \
    return compare_exchange(address, expected, value, order, order_of_failure, PLACE);                                 \
  }                                                                                                                    \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(                                                        \
      volatile std::uint##bits##_t* address, std::uint##bits##_t* expected, std::uint##bits##_t value, int order,      \
      int order_of_failure) {                                                                                          \
    const auto former = compare_exchange(address, *expected, value, order, order_of_failure, PLACE);                   \
    const int is_equal = former == *expected ? 1 : 0;                                                                  \
    *expected = former;                                                                                                \
    return is_equal;                                                                                                   \
  }                                                                                                                    \
  extern "C" int __tsan_atomic##bits##_compare_exchange_weak(volatile std::uint##bits##_t* address,                    \
                                                             std::uint##bits##_t* expected, std::uint##bits##_t value, \
                                                             int order, int order_of_failure) {                        \
    return __tsan_atomic##bits##_compare_exchange_strong(address, expected, value, order, order_of_failure);           \
  }
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

// ---- local static variables: code loads their guard with acquire order; the rest happens in the C++ library

extern "C" int __cxa_guard_acquire(std::int64_t* guard) noexcept {
  static constinit const lockstep::virtual_time::detail::Real<int(std::int64_t*)> real{"__cxa_guard_acquire"};
  const int must_initialize = real(guard);
  if_active([guard](Detector& active) { active.has_acquired(guard); });
  return must_initialize;
}

extern "C" void __cxa_guard_release(std::int64_t* guard) noexcept {
  static constinit const lockstep::virtual_time::detail::Real<void(std::int64_t*)> real{"__cxa_guard_release"};
  if_active([guard](Detector& active) { active.releases(guard); });
  real(guard);
  if_active([byte = reinterpret_cast<const std::uint8_t*>(guard)](Detector& active) {
    active.store(byte, 0, *byte, __ATOMIC_RELEASE);
  });
}

// ---- memory of exceptions, which the C++ library allocates with malloc

extern "C" void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  static constinit const lockstep::virtual_time::detail::Real<void*(std::size_t)> real{"__cxa_allocate_exception"};
  void* const data = real(bytes);
  if_active([data, bytes](Detector& active) { active.forget(data, bytes); });
  return data;
}

// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

// ---- memory

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* data) noexcept { release(data, malloc_usable_size(data), PLACE); }
void operator delete[](void* data) noexcept { release(data, malloc_usable_size(data), PLACE); }
void operator delete(void* data, std::align_val_t) noexcept { release(data, malloc_usable_size(data), PLACE); }
void operator delete[](void* data, std::align_val_t) noexcept { release(data, malloc_usable_size(data), PLACE); }
void operator delete(void* data, std::size_t bytes) noexcept { release(data, bytes, PLACE); }
void operator delete[](void* data, std::size_t bytes) noexcept { release(data, bytes, PLACE); }
void operator delete(void* data, std::size_t bytes, std::align_val_t) noexcept { release(data, bytes, PLACE); }
void operator delete[](void* data, std::size_t bytes, std::align_val_t) noexcept { release(data, bytes, PLACE); }
