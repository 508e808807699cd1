// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of results that a program asks for again and again. Who reduces the same values to the same places every step
// pays for the plan of that once.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>

namespace lockstep::detail {

/// A resource on the default one. The same requests in the same order, after all blocks of the last time were given
/// back, get the same blocks. Of what is given back, `most_kept_bytes` are kept. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> steady_memory(std::size_t most_kept_bytes = std::size_t{16} << 20);

}  // namespace lockstep::detail
