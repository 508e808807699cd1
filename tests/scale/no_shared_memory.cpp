// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// transport/shm for simulated ranks: they are one process, so they have no memory to share.

#include <lockstep/device/arena.hpp>

#include "transport/shm/node_group.hpp"

namespace lockstep::detail {

struct ProcessGroupOffer::Parts {
  NodeIntroduction introduction;
};
ProcessGroupOffer::ProcessGroupOffer(bool) : parts_(std::make_unique<Parts>()), why_not_("ranks are simulated") {}
ProcessGroupOffer::~ProcessGroupOffer() = default;
const NodeIntroduction& ProcessGroupOffer::introduction() const noexcept { return parts_->introduction; }
bool ProcessGroupOffer::open(int, std::span<const NodeIntroduction>) { return false; }
std::unique_ptr<NodeGroup> ProcessGroupOffer::take() { return nullptr; }
void ProcessGroupOffer::withdraw() noexcept {}

std::vector<std::unique_ptr<NodeGroup>> make_thread_groups(int) { return {}; }
std::size_t page_bytes() noexcept { return 4096; }

}  // namespace lockstep::detail

lockstep::ArenaStatus lockstep::arena_status() { return {}; }
