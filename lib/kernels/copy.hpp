// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies, through the caches or past them.

#pragma once

#include <cstddef>

namespace lockstep::detail {

/// What becomes of a copy's lines.
enum class CopyKind : bool {
  cached,    ///< as memcpy leaves them
  streamed,  ///< written past the caches, with a store fence at the end: for what others read much later, or elsewhere
};

/// Copies `bytes` bytes, which do not overlap. Any alignment; null pointers where `bytes` is 0. Thread-safety: any
/// thread.
void copy_bytes(void* target, const void* source, std::size_t bytes, CopyKind kind = CopyKind::cached);

}  // namespace lockstep::detail
