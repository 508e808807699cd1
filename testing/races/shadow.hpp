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

/// An access to memory by a step of a thread.
class Access {
 public:
  Access() = default;
  Access(Step step, const void* place, bool is_write, bool is_atomic) noexcept
      : kind_and_step_(std::uint64_t{step.number} << number_shift |
                       static_cast<std::uint64_t>(step.thread) << thread_shift | (is_write ? write_bit : 0U) |
                       (is_atomic ? atomic_bit : 0U)),
        place_(place) {}

  [[nodiscard]] Step step() const noexcept {
    return {thread(), static_cast<std::uint32_t>(kind_and_step_ >> number_shift)};
  }
  [[nodiscard]] int thread() const noexcept {
    return static_cast<int>((kind_and_step_ & ((std::uint64_t{1} << number_shift) - 1U)) >> thread_shift);
  }
  [[nodiscard]] bool is_write() const noexcept { return (kind_and_step_ & write_bit) != 0; }
  [[nodiscard]] bool is_atomic() const noexcept { return (kind_and_step_ & atomic_bit) != 0; }
  [[nodiscard]] const void* place() const noexcept { return place_; }  ///< in the code
  [[nodiscard]] bool has_same_kind_and_step(const Access& other) const noexcept {
    return kind_and_step_ == other.kind_and_step_;
  }

 private:
  static constexpr int number_shift = 32;
  static constexpr int thread_shift = 2;
  static constexpr std::uint64_t write_bit = 2;
  static constexpr std::uint64_t atomic_bit = 1;

  std::uint64_t kind_and_step_ = 0;  // one number, because each access of each thread is compared with another one
  const void* place_ = nullptr;
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
      const std::size_t offset = address % block_bytes;
      const std::size_t count = std::min(bytes, block_bytes - offset);
      Block& block = block_of(address / block_bytes);
      if (block.granules == nullptr) {
        if (count == block_bytes) {
          note_in(block.all, all_bytes, access, clock, on_race);
        } else if (!block.all.has(access, all_bytes)) {
          split(block);
        }
      }
      if (block.granules != nullptr) {
        note_in_granules(*block.granules, offset, count, access, clock, on_race);
        if (count == block_bytes) join(block);
      }
      address += count;
      bytes -= count;
    }
  }

  /// No former access to these bytes is in a race with later ones: they are new memory.
  void forget(std::uintptr_t address, std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t offset = address % block_bytes;
      const std::size_t count = std::min(bytes, block_bytes - offset);
      if (Block* const block = find(address / block_bytes); block != nullptr) forget_in(*block, offset, count);
      address += count;
      bytes -= count;
    }
  }

  void clear() {
    pages_.clear();
    recent_.fill({});
    free_granules_.clear();
    for (const std::unique_ptr<Granules>& each : granules_) free_granules_.push_back(each.get());
    cells_.assign(1, {});
    free_ = none;
  }

 private:
  static constexpr std::size_t block_bytes = 512;
  static constexpr std::size_t blocks_of_page = 8;
  static constexpr std::uint32_t none = 0;
  static constexpr std::uint8_t all_bytes = 0xff;

  /// An access to some bytes of a granule; of none, if the mask is 0.
  struct Cell {
    Access access;
    std::uint32_t next = none;
    std::uint8_t mask = 0;

    [[nodiscard]] bool has(const Access& other, std::uint8_t bytes) const noexcept {
      return access.has_same_kind_and_step(other) && (mask & bytes) == bytes;
    }
  };
  /// The newest access to each granule of a block; cells_ has the older ones.
  using Granules = std::array<Cell, block_bytes / granule_bytes>;
  struct Block {
    Cell all;                      // what each granule has, while none has been accessed without the others
    Granules* granules = nullptr;  // from then on
  };
  using Page = std::array<Block, blocks_of_page>;
  struct Recent {
    std::uintptr_t number = 0;
    Page* page = nullptr;
  };

  [[nodiscard]] Page* find_page(std::uintptr_t number) noexcept {
    Recent& recent = recent_[number % recent_.size()];
    return recent.page != nullptr && recent.number == number ? recent.page : find_old(number, recent);
  }
  [[gnu::noinline]] Page* find_old(std::uintptr_t number, Recent& recent) noexcept {
    const auto found = pages_.find(number);
    if (found == pages_.end()) return nullptr;
    recent = {number, &found->second};
    return recent.page;
  }
  [[nodiscard]] Block* find(std::uintptr_t number) noexcept {
    Page* const page = find_page(number / blocks_of_page);
    return page != nullptr ? &(*page)[number % blocks_of_page] : nullptr;
  }
  [[gnu::noinline]] Page& add_page(std::uintptr_t number) { return pages_[number]; }
  [[nodiscard]] Block& block_of(std::uintptr_t number) {
    Page* const page = find_page(number / blocks_of_page);
    return (page != nullptr ? *page : add_page(number / blocks_of_page))[number % blocks_of_page];
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

  /// Gives each granule of a block cells of its own.
  [[gnu::noinline]] void split(Block& block) {
    if (free_granules_.empty()) {
      granules_.push_back(std::make_unique<Granules>());
      free_granules_.push_back(granules_.back().get());
    }
    block.granules = free_granules_.back();
    free_granules_.pop_back();
    block.granules->fill({block.all.access, none, block.all.mask});
    for (std::uint32_t older = block.all.next; older != none; older = cells_[older].next) {
      for (Cell& cell : *block.granules) {
        const Cell copy{cells_[older].access, cell.next, cells_[older].mask};
        cell.next = add_cell(copy);
      }
    }
    free_all(block.all);
  }
  /// After an access to the whole block, which each granule then has: if none has another one, the block has it.
  void join(Block& block) {
    for (const Cell& cell : *block.granules)
      if (cell.next != none) return;
    block.all = block.granules->front();
    free_granules_.push_back(std::exchange(block.granules, nullptr));
  }
  void forget_in(Block& block, std::size_t offset, std::size_t bytes) {
    if (bytes == block_bytes) {
      free_all(block.all);
      if (block.granules == nullptr) return;
      for (Cell& cell : *block.granules) free_all(cell);
      free_granules_.push_back(std::exchange(block.granules, nullptr));
      return;
    }
    if (block.granules == nullptr && block.all.mask == 0) return;
    if (block.granules == nullptr) split(block);
    const std::size_t last = (offset + bytes - 1) / granule_bytes;
    for (std::size_t i = offset / granule_bytes; i <= last; ++i) free_all((*block.granules)[i]);
  }

  template <class OnRace>
  [[gnu::always_inline]] void note_in_granules(Granules& granules, std::size_t offset, std::size_t bytes,
                                               const Access& access, const VectorClock& clock, const OnRace& on_race) {
    while (bytes > 0) {
      const std::size_t first = offset % granule_bytes;
      const std::size_t count = std::min(bytes, granule_bytes - first);
      const auto mask = static_cast<std::uint8_t>(((1U << count) - 1U) << first);
      note_in(granules[offset / granule_bytes], mask, access, clock, on_race);
      offset += count;
      bytes -= count;
    }
  }

  template <class OnRace>
  [[gnu::always_inline]] void note_in(Cell& first, std::uint8_t mask, const Access& access, const VectorClock& clock,
                                      const OnRace& on_race) {
    // most accesses are like the last one, or come after it and are the only ones from then on
    if (first.has(access, mask)) return;
    if (first.next == none && (first.mask & ~mask) == 0 &&
        (first.mask == 0 || (comes_before(first.access, access, clock) && replaces(access, first.access)))) {
      first.access = access;
      first.mask = mask;
      return;
    }
    note_beside_others(first, mask, access, clock, on_race);
  }

  template <class OnRace>
  [[gnu::noinline]] void note_beside_others(Cell& first, std::uint8_t mask, const Access& access,
                                            const VectorClock& clock, const OnRace& on_race) {
    Cell* alike = nullptr;  // for accesses of this kind in the same step
    const auto compare = [&](Cell& cell) {
      const Access& former = cell.access;
      if (former.has_same_kind_and_step(access)) {
        alike = &cell;
      } else if ((cell.mask & mask) != 0) {
        if (!comes_before(former, access, clock)) {
          if ((former.is_write() || access.is_write()) && !(former.is_atomic() && access.is_atomic())) on_race(former);
        } else if (replaces(access, former)) {
          cell.mask = static_cast<std::uint8_t>(cell.mask & ~mask);
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

  [[nodiscard]] static bool comes_before(const Access& former, const Access& later, const VectorClock& clock) noexcept {
    return former.thread() == later.thread() || clock.has(former.step());
  }
  /// Whether what is in a race with `former` is so with `later`, which comes after it.
  [[nodiscard]] static bool replaces(const Access& later, const Access& former) noexcept {
    return (later.is_write() || !former.is_write()) && (former.is_atomic() || !later.is_atomic());
  }

  std::unordered_map<std::uintptr_t, Page> pages_;   // by address
  std::array<Recent, 1024> recent_;                  // pages that were found not long ago
  std::vector<std::unique_ptr<Granules>> granules_;  // kept by clear()
  std::vector<Granules*> free_granules_;             // those that no block has
  std::vector<Cell> cells_ = std::vector<Cell>(1);   // the first one is not used
  std::uint32_t free_ = none;                        // the first cell that is not in use
};

}  // namespace lockstep::races
