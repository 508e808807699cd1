// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies, through the caches or past them.

#pragma once

#include <cstddef>

namespace lockstep::detail {

/// How a copy uses the caches.
enum class CopyKind : bool {
  cached,    ///< as memcpy leaves them
  streamed,  ///< written past the caches, with a store fence at the end: for data that is read much later, or on other
             ///< cores
};

/// Copies `bytes` bytes between ranges that do not overlap, of any alignment; null pointers are allowed if `bytes` is
/// 0. Thread-safety: any thread.
void copy_bytes(void* target, const void* source, std::size_t bytes, CopyKind kind = CopyKind::cached);

}  // namespace lockstep::detail
