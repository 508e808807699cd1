// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// For builds in which time is real: those with sanitizers.

#include "virtual_time/virtual_time.hpp"

#include <atomic>

namespace lockstep::virtual_time {

Options Options::from_environment() { return {}; }
bool is_available() noexcept { return false; }
bool is_active() noexcept { return false; }
bool has_delays() noexcept { return false; }
std::chrono::nanoseconds now() noexcept { return {}; }
std::uint64_t seed_of_thread() noexcept {
  static std::atomic<std::uint64_t> calls{0};
  return calls.fetch_add(1, std::memory_order_relaxed);
}
void join_group(int) noexcept {}
int group() noexcept { return 0; }
void stop_group(int, std::uint64_t) {}
void continue_group(int) {}
std::optional<std::chrono::nanoseconds> stopped_since(int) { return std::nullopt; }
std::uint64_t turns_of_group(int) { return 0; }
void has_views(const void*, std::size_t, std::size_t) {}
void forget_views(const void*) {}
void preempt() {}
void print_stacks() {}
VirtualRun::VirtualRun(const Options&) {}
VirtualRun::~VirtualRun() { end(); }
int VirtualRun::end() { return 0; }
std::uint64_t VirtualRun::history() const noexcept { return 0; }
std::uint64_t VirtualRun::turns() const noexcept { return 0; }

}  // namespace lockstep::virtual_time
