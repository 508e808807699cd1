// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory for results that a program requests repeatedly. Plans are cached by address: a program that reduces the same
// values to the same addresses in every step pays for its plan once.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>

namespace lockstep::detail {

/// A resource that allocates from the default one. If all blocks of earlier requests were freed, the same requests in
/// the same order get the same blocks. Up to `most_kept_bytes` of freed blocks are kept. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> steady_memory(std::size_t most_kept_bytes = std::size_t{16} << 20);

}  // namespace lockstep::detail
