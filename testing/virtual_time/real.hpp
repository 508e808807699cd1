// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C library that this library replaces: their addresses, for threads that belong to no run.

#pragma once

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace lockstep::virtual_time::detail {

/// The address of `name` in the next library, or of what AddressSanitizer, which is linked with the program itself,
/// calls in its place: it must see the begin of each thread. `version` is the version of the symbol on x86-64 where
/// there are several.
template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name, const char* version = nullptr) noexcept : name_(name), version_(version) {}

  template <class... Arguments>
  auto operator()(Arguments... arguments) const {
    return get()(arguments...);
  }

 private:
  [[nodiscard]] Function* get() const {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      std::array<char, 64> sanitized;
      std::snprintf(sanitized.data(), sanitized.size(), "___interceptor_%s", name_);
      found = dlsym(RTLD_DEFAULT, sanitized.data());
      if (found == nullptr && version_ != nullptr) found = dlvsym(RTLD_NEXT, name_, version_);
      if (found == nullptr) found = dlsym(RTLD_NEXT, name_);
      if (found == nullptr) std::abort();
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(found);
  }

  const char* name_;
  const char* version_;
  mutable std::atomic<void*> found_{nullptr};
};

}  // namespace lockstep::virtual_time::detail

/// Declares `real_NAME`, the function NAME of the C library.
#define VIRTUAL_TIME_REAL(name) \
  constinit const lockstep::virtual_time::detail::Real<decltype(::name)> real_##name { #name }
