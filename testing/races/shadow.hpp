// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which threads have accessed which bytes, as far as a later access can still be in a race with them.

#pragma once

#include "races/vector_clock.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::races {

struct Access {
  Step step;
  const void* place = nullptr;  ///< in the code
  bool is_write = false;
  bool is_atomic = false;
};

class Shadow {
 public:
  static constexpr std::size_t granule_bytes = 8;

  /// Calls `on_race(former)` for each former access to one of the bytes that is in a race with `access`, and notes the
  /// access. `clock` is that of its thread.
  template <class OnRace>
  void note(std::uintptr_t address, std::size_t bytes, const Access& access, const VectorClock& clock,
            const OnRace& on_race) {
    while (bytes > 0) {
      const std::size_t offset = address % granule_bytes;
      const std::size_t count = bytes < granule_bytes - offset ? bytes : granule_bytes - offset;
      const auto mask = static_cast<std::uint8_t>(((1U << count) - 1U) << offset);
      note_in_granule(first_of(address / granule_bytes), mask, access, clock, on_race);
      address += count;
      bytes -= count;
    }
  }

  /// No former access to these bytes is in a race with later ones: they are new memory.
  void forget(std::uintptr_t address, std::size_t bytes) {
    const std::uintptr_t last = (address + bytes - 1) / granule_bytes;
    for (std::uintptr_t key = address / granule_bytes; key <= last;) {
      const std::uintptr_t next = (key / granules_of_page + 1) * granules_of_page;
      const std::uintptr_t end = next <= last ? next : last + 1;
      Page* const page = find(key / granules_of_page);
      for (; page != nullptr && key < end; ++key) free_all(page->first[key % granules_of_page]);
      key = end;
    }
  }

  void clear() noexcept {
    pages_.clear();
    recent_.fill({});
    cells_.clear();
    free_ = none;
  }

 private:
  static constexpr std::size_t granules_of_page = 512;
  static constexpr std::uint32_t none = UINT32_MAX;

  /// An access to some bytes of a granule.
  struct Cell {
    Access access;
    std::uint32_t next;
    std::uint8_t mask;
  };
  struct Page {
    Page() { first.fill(none); }
    std::array<std::uint32_t, granules_of_page> first;  // cells, by granule
  };

  [[nodiscard]] Page* find(std::uintptr_t number) noexcept {
    Recent& recent = recent_[number % recent_.size()];
    if (recent.page != nullptr && recent.number == number) return recent.page;
    const auto found = pages_.find(number);
    if (found == pages_.end()) return nullptr;
    recent = {number, found->second.get()};
    return recent.page;
  }
  /// The first cell of a granule.
  [[nodiscard]] std::uint32_t& first_of(std::uintptr_t key) {
    Page* page = find(key / granules_of_page);
    if (page == nullptr) page = pages_.emplace(key / granules_of_page, std::make_unique<Page>()).first->second.get();
    return page->first[key % granules_of_page];
  }
  void free_all(std::uint32_t& first) noexcept {
    while (first != none) {
      const std::uint32_t cell = std::exchange(first, cells_[first].next);
      cells_[cell].next = std::exchange(free_, cell);
    }
  }

  template <class OnRace>
  void note_in_granule(std::uint32_t& first, std::uint8_t mask, const Access& access, const VectorClock& clock,
                       const OnRace& on_race) {
    std::uint32_t alike = none;  // a cell for accesses of this kind in the same step
    for (std::uint32_t* link = &first; *link != none;) {
      Cell& cell = cells_[*link];
      const Access& former = cell.access;
      const bool is_own = former.step.thread == access.step.thread;
      if (is_own && former.step.number == access.step.number && former.is_write == access.is_write &&
          former.is_atomic == access.is_atomic) {
        if ((cell.mask & mask) == mask) return;
        alike = *link;
      } else if ((cell.mask & mask) != 0) {
        if (!is_own && !clock.has(former.step)) {
          if ((former.is_write || access.is_write) && !(former.is_atomic && access.is_atomic)) on_race(former);
        } else if ((access.is_write || !former.is_write) && (former.is_atomic || !access.is_atomic)) {
          cell.mask = static_cast<std::uint8_t>(cell.mask & ~mask);  // what is in a race with it is so with this one
        }
        if (cell.mask == 0) {
          const std::uint32_t removed = std::exchange(*link, cell.next);
          cell.next = std::exchange(free_, removed);
          continue;
        }
      }
      link = &cell.next;
    }
    if (alike != none) {
      cells_[alike].mask = static_cast<std::uint8_t>(cells_[alike].mask | mask);
      return;
    }
    if (free_ == none) {
      free_ = static_cast<std::uint32_t>(cells_.size());
      cells_.push_back({{}, none, 0});
    }
    Cell& added = cells_[free_];
    const std::uint32_t index = std::exchange(free_, added.next);
    added = {access, first, mask};
    first = index;
  }

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;  // by address
  struct Recent {
    std::uintptr_t number = 0;
    Page* page = nullptr;
  };
  std::array<Recent, 256> recent_;  // pages that were found not long ago
  std::vector<Cell> cells_;
  std::uint32_t free_ = none;  // the first cell that is not in use
};

}  // namespace lockstep::races
