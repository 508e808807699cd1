// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of batches. Steps ask for the same sizes again and again: what one batch gives back, a later one takes.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <memory>

namespace lockstep::input {

/// A resource on `source`, null for the heap, that keeps the 64 blocks that were given back last, and gives them out
/// again for the same size. A batch that somebody still holds is simply not given back. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> recycling_memory(std::shared_ptr<MemoryResource> source = nullptr);

}  // namespace lockstep::input
