// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// For builds in which time is real: those with sanitizers.

#include "virtual_time/virtual_time.hpp"

namespace lockstep::virtual_time {

Options Options::from_environment() { return {}; }
bool is_available() noexcept { return false; }
bool is_active() noexcept { return false; }
std::chrono::nanoseconds now() noexcept { return {}; }
VirtualRun::VirtualRun(const Options&) {}
VirtualRun::~VirtualRun() = default;
int VirtualRun::end() { return 0; }
std::uint64_t VirtualRun::history() const noexcept { return 0; }
std::uint64_t VirtualRun::turns() const noexcept { return 0; }

}  // namespace lockstep::virtual_time
