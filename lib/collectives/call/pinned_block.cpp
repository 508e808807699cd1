// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/pinned_block.hpp"

#include <lockstep/device/gpu.hpp>

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"

#include <new>

namespace lockstep::detail {

void PinnedBlock::allocate(std::size_t bytes) {
  try {
    data_ = static_cast<std::byte*>(pinned_memory_resource()->allocate(bytes));
    bytes_ = bytes;
  } catch (const std::bad_alloc&) {
    throw_error(Code::unavailable, "there are no {} bytes of page-locked memory left", bytes);
  }
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  if (!is_in_use_) {
    pinned_memory_resource()->deallocate(data_, bytes_);
    return;
  }
  log_warning("{} bytes of page-locked memory are kept for ever: a message or a copy of them did not end", bytes_);
  leak(data_);
}

}  // namespace lockstep::detail
