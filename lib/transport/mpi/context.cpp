// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/context.hpp"

#include "base/leak.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::uint64_t tags_of_a_kind = 8190;

/// Number of tags of one slot (see Tags), except slot 0.
int slot_tags() {
  constexpr int many_tags = 1 << 22;
  static const int count = mpi::largest_tag() >= many_tags ? 1024 : 64;
  return count;
}

}  // namespace

int Tags::slots() { return (mpi::largest_tag() - arrivals) / slot_tags(); }

int Tags::first() const noexcept { return arrivals + 1 + (slot_ - 1) * slot_tags(); }

int Tags::of_messages() const noexcept { return slot_ == 0 ? 0 : first(); }

int Tags::of_transfers_aside() const noexcept {
  return slot_ == 0 ? 1 + 2 * static_cast<int>(number_ % tags_of_a_kind) : first() + 1;
}

int Tags::of_transfers(std::uint64_t epoch) const noexcept {
  constexpr std::uint64_t epochs_apart = 509;
  if (slot_ != 0) return first() + 2 + static_cast<int>(epoch % epochs());
  return 2 + 2 * static_cast<int>((number_ % tags_of_a_kind * epochs_apart + epoch) % tags_of_a_kind);
}

std::uint64_t Tags::epochs() const noexcept {
  return slot_ != 0 ? static_cast<std::uint64_t>(slot_tags() - 2) : tags_of_a_kind;
}

Context::~Context() {
  if (owner_ != nullptr || !abandoned_.empty()) comm_.release();
}

std::shared_ptr<Context> Context::borrow(MPI_Comm comm, std::shared_ptr<const void> owner) {
  auto context = std::make_shared<Context>(mpi::Comm::adopt(comm));
  context->owner_ = std::move(owner);
  return context;
}

bool Context::take_slot(int slot) {
  const MutexLock lock(mutex_);
  return slots_.insert(slot).second;
}

void Context::free_slot(int slot) {
  const MutexLock lock(mutex_);
  slots_.erase(slot);
}

bool Context::drop_duplicates(std::uint64_t count) {
  while (true) {
    while (!abandoned_.empty()) {
      if (!abandoned_.front()->test()) return false;
      abandoned_.pop_front();
    }
    if (duplicates_ >= count) return true;
    abandoned_.push_back(start_duplicate());
  }
}

std::unique_ptr<mpi::PendingDuplicate> Context::start_duplicate() {
  auto duplicate = std::make_unique<mpi::PendingDuplicate>(comm());
  ++duplicates_;
  return duplicate;
}

void Context::abandon_duplicate(std::unique_ptr<mpi::PendingDuplicate> duplicate) noexcept {
  abandoned_.push_back(std::move(duplicate));
}

}  // namespace lockstep::detail
