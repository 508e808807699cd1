// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// For programs whose code does not report its accesses.

#include "races/races.hpp"

namespace lockstep::races {

bool is_available() noexcept { return false; }
void read(const void*, std::size_t) {}
void wrote(const void*, std::size_t) {}
void is_new(const void*, std::size_t) {}
void has_views(const void*, std::size_t, std::size_t) {}
void separates(const void*, std::size_t) {}
Detection::Detection(const Options&) {}
Detection::~Detection() = default;
std::vector<Race> Detection::races() const { return {}; }
std::uint64_t Detection::accesses() const noexcept { return 0; }
std::uint64_t Detection::stale_loads() const noexcept { return 0; }

}  // namespace lockstep::races
