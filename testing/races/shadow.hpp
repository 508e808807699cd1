// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which threads have accessed which bytes, as far as a later access can still be in a race with them.

#pragma once

#include "races/vector_clock.hpp"

#include <algorithm>
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
  [[gnu::always_inline]] void note(std::uintptr_t address, std::size_t bytes, const Access& access,
                                   const VectorClock& clock, const OnRace& on_race) {
    while (bytes > 0) {
      const std::size_t offset = address % granule_bytes;
      const std::size_t count = std::min(bytes, granule_bytes - offset);
      const auto mask = static_cast<std::uint8_t>(((1U << count) - 1U) << offset);
      Cell& first = first_of(address / granule_bytes);
      // most accesses are like the last one
      if (!first.has_same_kind_and_step(access) || (first.mask & mask) != mask)
        note_in_granule(first, mask, access, clock, on_race);
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
      for (; page != nullptr && key < end; ++key) free_all((*page)[key % granules_of_page]);
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

  /// An access to some bytes of a granule; of none, if the mask is 0.
  struct Cell {
    Access access;
    std::uint32_t next = none;
    std::uint8_t mask = 0;

    [[nodiscard]] bool has_same_kind_and_step(const Access& other) const noexcept {
      return access.step.number == other.step.number && access.step.thread == other.step.thread &&
             access.is_write == other.is_write && access.is_atomic == other.is_atomic;
    }
  };
  using Page = std::array<Cell, granules_of_page>;  // the newest access to each granule; cells_ has the older ones
  struct Recent {
    std::uintptr_t number = 0;
    Page* page = nullptr;
  };

  [[nodiscard]] Page* find(std::uintptr_t number) noexcept {
    Recent& recent = recent_[number % recent_.size()];
    return recent.page != nullptr && recent.number == number ? recent.page : find_old(number, recent);
  }
  [[gnu::noinline]] Page* find_old(std::uintptr_t number, Recent& recent) noexcept {
    const auto found = pages_.find(number);
    if (found == pages_.end()) return nullptr;
    recent = {number, found->second.get()};
    return recent.page;
  }
  [[gnu::noinline]] Page* add_page(std::uintptr_t number) {
    return pages_.emplace(number, std::make_unique<Page>()).first->second.get();
  }
  /// The first cell of a granule.
  [[nodiscard]] Cell& first_of(std::uintptr_t key) {
    Page* page = find(key / granules_of_page);
    if (page == nullptr) page = add_page(key / granules_of_page);
    return (*page)[key % granules_of_page];
  }
  void free_cell(std::uint32_t cell) noexcept { cells_[cell].next = std::exchange(free_, cell); }
  void free_all(Cell& first) noexcept {
    first.mask = 0;
    while (first.next != none) free_cell(std::exchange(first.next, cells_[first.next].next));
  }
  /// Returns the index of a cell with this content.
  std::uint32_t add_cell(const Cell& content) {
    if (free_ == none) {
      cells_.push_back(content);
      return static_cast<std::uint32_t>(cells_.size() - 1);
    }
    const std::uint32_t cell = std::exchange(free_, cells_[free_].next);
    cells_[cell] = content;
    return cell;
  }

  template <class OnRace>
  void note_in_granule(Cell& first, std::uint8_t mask, const Access& access, const VectorClock& clock,
                       const OnRace& on_race) {
    Cell* alike = nullptr;  // for accesses of this kind in the same step
    const auto compare = [&](Cell& cell) {
      const Access& former = cell.access;
      const bool is_own = former.step.thread == access.step.thread;
      if (cell.has_same_kind_and_step(access)) {
        alike = &cell;
      } else if ((cell.mask & mask) != 0) {
        if (!is_own && !clock.has(former.step)) {
          if ((former.is_write || access.is_write) && !(former.is_atomic && access.is_atomic)) on_race(former);
        } else if ((access.is_write || !former.is_write) && (former.is_atomic || !access.is_atomic)) {
          cell.mask = static_cast<std::uint8_t>(cell.mask & ~mask);  // what is in a race with it is so with this one
        }
      }
    };
    if (first.mask != 0) compare(first);
    for (std::uint32_t* link = &first.next; *link != none;) {
      Cell& cell = cells_[*link];
      compare(cell);
      if (cell.mask != 0) {
        link = &cell.next;
      } else {
        free_cell(std::exchange(*link, cell.next));
      }
    }
    if (alike != nullptr) {
      alike->mask = static_cast<std::uint8_t>(alike->mask | mask);
      return;
    }
    if (first.mask != 0) first.next = add_cell(first);
    first.access = access;
    first.mask = mask;
  }

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;  // by address
  std::array<Recent, 1024> recent_;                                  // pages that were found not long ago
  std::vector<Cell> cells_;
  std::uint32_t free_ = none;  // the first cell that is not in use
};

}  // namespace lockstep::races
