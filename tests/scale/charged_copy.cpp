// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// memcpy and memmove for simulated ranks: copies of at least a few cache lines are charged to simulated time as bytes
// that one core loads and stores. The linker puts these functions in the place of the C library's (--wrap) for the
// calls of this program, and for no others: copies inside the MPI library take no time.

#include "scale/simulated_time.hpp"

#include <cstddef>

extern "C" {

void* __real_memcpy(void* target, const void* source, std::size_t bytes);
void* __real_memmove(void* target, const void* source, std::size_t bytes);

void* __wrap_memcpy(void* target, const void* source, std::size_t bytes) {
  lockstep::detail::charge_copy(bytes);
  return __real_memcpy(target, source, bytes);
}

void* __wrap_memmove(void* target, const void* source, std::size_t bytes) {
  lockstep::detail::charge_copy(bytes);
  return __real_memmove(target, source, bytes);
}

}  // extern "C"
