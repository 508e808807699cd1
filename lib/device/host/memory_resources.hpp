// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory resources for use inside the library: steady memory, and the library's choice of the default resource.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>

namespace lockstep::detail {

/// Memory for results that a program requests repeatedly. Plans are cached by address. So if the results of a program
/// have the same addresses in every step, the program pays for its plan only once. If all blocks of earlier requests
/// were freed, the same requests in the same order get the same blocks. Allocates from the default memory resource, and
/// keeps up to `most_kept_bytes` of freed blocks. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> steady_memory(std::size_t most_kept_bytes = std::size_t{16} << 20);

/// Makes `resource` the default memory resource, unless the program has called set_default_memory_resource.
/// Thread-safe.
void offer_default_memory_resource(std::shared_ptr<MemoryResource> resource);

}  // namespace lockstep::detail
