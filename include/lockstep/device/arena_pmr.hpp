// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arena for the containers of std::pmr. Not included by lockstep.hpp, because few programs need <memory_resource>.

#pragma once

#include <lockstep/base/export.hpp>

#include <memory_resource>

namespace lockstep {

/// The arena (see arena.hpp) as a std::pmr resource:
/// `std::pmr::vector<float> gradient(n, lockstep::arena_pmr_resource())`.
/// An allocation with an alignment above 64 bytes throws std::bad_alloc. Never null. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::pmr::memory_resource* arena_pmr_resource();

}  // namespace lockstep
