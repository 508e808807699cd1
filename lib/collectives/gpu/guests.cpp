// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/guests.hpp"

namespace lockstep::detail {
namespace {

/// Moves all on, those that send in order; whether all are over.
template <class Parts>
bool advance_all(Parts& parts, Transport& transport) {
  bool may_send = true;
  bool are_over = true;
  for (auto& part : parts) {
    part.advance(transport, may_send);
    may_send = may_send && part.has_sent();
    are_over = are_over && part.is_over();
  }
  return are_over;
}

}  // namespace

Guests::Guests(const Descriptor& descriptor, const GpuGroup& group, std::span<const HostItem> items) {
  for (const Guest& guest : group.leaders().guests()) {
    if (guest.rank == group.rank()) visits_.emplace_back(descriptor, group, guest, items);
    if (group.leaders()[guest.leader].rank == group.rank()) hostings_.emplace_back(descriptor, group, guest, items);
  }
}

void Guests::start(Transport& transport) {
  for (Visit& visit : visits_) visit.start(transport);
  for (Hosting& hosting : hostings_) hosting.start(transport);
}

bool Guests::advance_visits(Transport& transport) { return advance_all(visits_, transport); }

bool Guests::have_come(Transport& transport, std::vector<HostItem>& items, const TakeScratch& scratch) {
  if (have_come_) return true;
  bool all = true;
  for (Hosting& hosting : hostings_) all = hosting.has_come(transport) && all;
  if (!all) return false;
  for (Hosting& hosting : hostings_) hosting.admit(items, scratch);
  have_come_ = true;
  return true;
}

bool Guests::have_gone(Transport& transport) {
  if (!is_fetched_) {
    for (Hosting& hosting : hostings_) hosting.fetch();
    is_fetched_ = true;
  }
  return advance_all(hostings_, transport);
}

void Guests::settle() noexcept {
  for (Visit& visit : visits_) visit.settle();
  for (Hosting& hosting : hostings_) hosting.settle();
}

}  // namespace lockstep::detail
