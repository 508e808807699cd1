// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/nccl/nccl.hpp"

#include "base/mutex.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace lockstep::detail::nccl {
namespace {

struct Named {
  Mutex mutex;
  std::string file LOCKSTEP_GUARDED_BY(mutex);
  bool is_taken LOCKSTEP_GUARDED_BY(mutex) = false;
};

/// One object per process, because a process opens NCCL once.
Named& named() {
  static Named of_this_process;
  return of_this_process;
}

}  // namespace

std::string version_text(int code) {
  // up to version 2.8, the code is major * 1000 + minor * 100 + patch; later versions use major * 10000
  const int major = code < 10000 ? code / 1000 : code / 10000;
  return fmt::format("{}.{}.{}", major, code < 10000 ? code % 1000 / 100 : code % 10000 / 100, code % 100);
}

bool is_reducible(DType dtype) noexcept { return dtype != DType::i16 && dtype != DType::u16; }

bool name_library(const std::string& file) {
  Named& known = named();
  const MutexLock lock(known.mutex);
  if (known.is_taken) return false;
  known.file = file;
  return true;
}

LibraryName take_library_name() {
  Named& known = named();
  const MutexLock lock(known.mutex);
  known.is_taken = true;
  if (!known.file.empty()) return {known.file, "EnvironmentOptions::nccl_library"};
  const char* const variable = std::getenv("LOCKSTEP_NCCL");
  return {variable != nullptr ? variable : "", "LOCKSTEP_NCCL"};
}

}  // namespace lockstep::detail::nccl
