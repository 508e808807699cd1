// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies by ordinary or by non-temporal stores.

#pragma once

#include <cstddef>

namespace lockstep::detail {

/// How a copy uses the caches.
enum class CopyKind : bool {
  cached,    ///< by memcpy
  streamed,  ///< by non-temporal stores, with a store fence at the end: for data that is read much later, or on other
             ///< cores
};

/// Copies `bytes` bytes. The ranges must not overlap; they may have any alignment. Null pointers are allowed if `bytes`
/// is 0. Thread-safety: any thread.
void copy_bytes(void* target, const void* source, std::size_t bytes, CopyKind kind = CopyKind::cached);

}  // namespace lockstep::detail
