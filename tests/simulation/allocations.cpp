// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/allocations.hpp"

#include "races/races.hpp"
#include "virtual_time/virtual_time.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace lockstep::simulation {
namespace {

struct Group {
  std::uint64_t left = 0;  // allocations up to the one that fails, and with it; 0: none fails
  std::chrono::nanoseconds failed_at{-1};
};
constinit std::array<Group, virtual_time::most_groups> groups{};
constinit int armed = 0;  // groups in which an allocation will fail
constinit thread_local CodeOf::Owner owner = CodeOf::library;

Group& group_of_number(int group) noexcept { return groups[static_cast<std::size_t>(group)]; }

}  // namespace

void forget_failed_allocations() noexcept {
  groups = {};
  armed = 0;
}

void fail_allocation(int group, std::uint64_t count) noexcept {
  std::uint64_t& left = group_of_number(group).left;
  armed += (count > 0 ? 1 : 0) - (left > 0 ? 1 : 0);
  left = count;
}

std::optional<std::chrono::nanoseconds> failed_allocation(int group) noexcept {
  const std::chrono::nanoseconds at = group_of_number(group).failed_at;
  return at.count() < 0 ? std::nullopt : std::optional(at);
}

void at_allocation() {
  if (armed == 0 || owner == CodeOf::simulation) return;
  Group& own = group_of_number(virtual_time::group());
  if (own.left == 0 || --own.left > 0) return;
  --armed;
  own.failed_at = virtual_time::now();
  throw std::bad_alloc();
}

CodeOf::CodeOf(Owner other) noexcept : former_(owner) { owner = other; }
CodeOf::~CodeOf() { owner = former_; }

}  // namespace lockstep::simulation
