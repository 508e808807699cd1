// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory resources inside of the library: steady memory, and its own choice of the default resource.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>

namespace lockstep::detail {

/// Memory for results that a program requests repeatedly. Plans are cached by address: a program that reduces the same
/// values to the same addresses in every step pays for its plan once. The resource allocates from the default one. If
/// all blocks of earlier requests were freed, the same requests in the same order get the same blocks. Up to
/// `most_kept_bytes` of freed blocks are kept. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> steady_memory(std::size_t most_kept_bytes = std::size_t{16} << 20);

/// Installs `resource` as the default unless the program has called set_default_memory_resource. Thread-safe.
void offer_default_memory_resource(std::shared_ptr<MemoryResource> resource);

}  // namespace lockstep::detail
