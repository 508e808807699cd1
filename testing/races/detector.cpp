// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "races/detector.hpp"

#include "virtual_time/observer.hpp"
#include "virtual_time/scheduler.hpp"
#include "virtual_time/stack.hpp"
#include "virtual_time/virtual_time.hpp"

#include <fmt/format.h>

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace lockstep::races {
namespace {

namespace vt = virtual_time::detail;

std::uintptr_t number_of(const void* address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

bool acquires(int order) noexcept {
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
         order == __ATOMIC_SEQ_CST;
}
bool releases_by(int order) noexcept {
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

constexpr vt::Observer observer{
    .has_created =
        [](int thread) {
          const Inside inside;
          detector->has_created(thread);
        },
    .ends =
        [] {
          const Inside inside;
          detector->ends();
        },
    .has_joined =
        [](int thread) {
          const Inside inside;
          detector->has_joined(thread);
        },
    .has_acquired =
        [](const void* object) {
          if (Inside::is_inside) return;
          const Inside inside;
          detector->has_acquired(object);
        },
    .releases =
        [](const void* object) {
          if (Inside::is_inside) return;
          const Inside inside;
          detector->releases(object);
        },
};

}  // namespace

constinit bool Inside::is_inside = false;
constinit Detector* detector = nullptr;
constinit bool is_open = false;

void Detector::begin(const Options& options) {
  options_ = options;
  threads_.clear();
  self_number_ = -1;
  of_ended_threads_.clear();
  in_order_.clear();
  objects_.clear();
  atomics_.clear();
  shadow_.clear();
  views_.clear();
  separate_pages_.clear();
  pairs_.clear();
  races_.clear();
  accesses_ = 0;
  stale_loads_ = 0;
  random_ = (options.seed + 1) * 0x9e3779b97f4a7c15U | 1U;  // small seeds differ in few bits
  thread(vt::self->number).clock.advance(vt::self->number);
}

Detector::Thread& Detector::thread(int number) {
  const auto index = static_cast<std::size_t>(number);
  if (index >= threads_.size()) threads_.resize(index + 1);
  return threads_[index];
}

void Detector::change_self() {
  self_number_ = vt::self->number;
  self_ = &thread(self_number_);
}

std::uint64_t Detector::random(std::uint64_t count) noexcept {
  random_ ^= random_ << 13;  // xorshift64
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return (random_ >> 11) % count;
}

// ---- what orders threads

void Detector::has_created(int created) {
  Thread& child = thread(created);
  child.clock = self().clock;
  child.clock.join(of_ended_threads_);
  child.clock.advance(created);
  self().clock.advance(vt::self->number);
}

void Detector::ends() {
  Thread& here = self();
  of_ended_threads_.join(here.clock);
  if (here.stack_end != 0) shadow_.forget(here.stack_begin, here.stack_end - here.stack_begin);
  here.stack_begin = here.stack_end = 0;
}
void Detector::has_joined(int ended) { self().clock.join(VectorClock(thread(ended).clock)); }
void Detector::has_acquired(const void* object) { self().clock.join(objects_[number_of(object)]); }
void Detector::releases(const void* object) {
  objects_[number_of(object)].join(self().clock);
  self().clock.advance(vt::self->number);
}

void Detector::fence(int order) {
  Thread& here = self();
  if (acquires(order)) here.clock.join(here.of_relaxed_loads);
  if (order == __ATOMIC_SEQ_CST) {  // it orders nothing by itself, but limits what later loads may return
    here.ordered.join(in_order_);
    in_order_.join(here.clock);
  }
  if (releases_by(order)) {
    here.of_release_fence = here.clock;
    here.clock.advance(vt::self->number);
  }
}

// ---- memory

void Detector::find_stack() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  std::size_t bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  self().stack_begin = number_of(begin);
  self().stack_end = number_of(begin) + bytes;
}

bool Detector::is_of_a_stack(std::uintptr_t address) const noexcept {
  return std::any_of(threads_.begin(), threads_.end(),
                     [address](const Thread& each) { return address >= each.stack_begin && address < each.stack_end; });
}

std::uintptr_t Detector::common_address(const void* address) const noexcept {
  const std::uintptr_t number = number_of(address);
  for (const Views& views : views_) {
    if (number - views.begin >= views.all) continue;
    const bool is_separate = !separate_pages_.empty() && separate_pages_.contains(number / page_bytes);
    return is_separate ? number : views.common + (number - views.begin) % views.bytes;
  }
  return number;
}

void Detector::has_views(const void* address, std::size_t bytes, std::size_t views) {
  constexpr int unused_bits = 60;  // of addresses
  const std::uintptr_t common = (std::uintptr_t{1} << unused_bits) | views_.size() << 48;
  views_.push_back({number_of(address), bytes, bytes * views, common});
}

void Detector::separates(const void* address, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += page_bytes)
    separate_pages_.insert((number_of(address) + offset) / page_bytes);
  shadow_.forget(number_of(address), bytes);
}

void Detector::has_race(std::uintptr_t address, std::size_t bytes, const Access& former, const Access& later) {
  // A stack has no allocations by which to tell its old objects from the new ones; the scheduler's state is its own.
  const auto first = number_of(&vt::scheduler());
  const bool is_of_scheduler = address >= first && address < first + sizeof(vt::Scheduler);
  if (!is_of_scheduler && !is_of_a_stack(address)) report(former, later, bytes);
}

inline void Detector::note(std::uintptr_t address, std::size_t bytes, const Access& access) {
  ++accesses_;
  shadow_.note(address, bytes, access, self().clock,
               [&](const Access& former) { has_race(address, bytes, former, access); });
}

void Detector::access(const void* address, std::size_t bytes, bool is_write, const void* place) {
  if (is_own_stack(number_of(address))) return;
  const Access access{own_step(), place, is_write, false};
  in_parts(address, bytes, [&](std::uintptr_t first, std::size_t count) { note(first, count, access); });
}

void Detector::forget(const void* address, std::size_t bytes) {
  in_parts(address, bytes, [this](std::uintptr_t first, std::size_t count) {
    shadow_.forget(first, count);
    atomics_.forget(first, count);
    objects_.erase(objects_.lower_bound(first), objects_.lower_bound(first + count));
  });
}

void Detector::report(const Access& former, const Access& later, std::size_t bytes) {
  const std::array groups{thread(former.thread()).group, thread(later.thread()).group};
  const Pair pair{former.place(), later.place(), groups};
  if (races_.size() == most_races || std::find(pairs_.begin(), pairs_.end(), pair) != pairs_.end()) return;
  pairs_.push_back(pair);
  const auto describe = [](const Access& access, int group) {
    return fmt::format("{}{} of thread {} (group {}) in {}", access.is_atomic() ? "atomic " : "",
                       access.is_write() ? "write" : "read", access.thread(), group, vt::function_at(access.place()));
  };
  races_.push_back({fmt::format("data race of {} bytes: first {}, then {}", bytes, describe(former, groups[0]),
                                describe(later, groups[1])),
                    {{{groups[0], former.is_write()}, {groups[1], later.is_write()}}}});
  if (!options_.prints_stacks) return;
  vt::print_line("%s", races_.back().text.c_str());
  vt::print_this_stack();
}

// ---- atomics

Atomic& Detector::atomic(const void* address, std::uint64_t value) {
  Atomic& found = atomics_.at(common_address(address));
  // else code that reports nothing, or a plain write, has changed it
  if (found.is_new() || found.last().value != value) found.begin(value);
  return found;
}

void Detector::acquire(const VectorClock& released, int order) {
  if (acquires(order)) {
    self().clock.join(released);
  } else {
    self().of_relaxed_loads.join(released);
  }
}

Store Detector::make_store(std::uint64_t value, int order) {
  Thread& here = self();
  if (order == __ATOMIC_SEQ_CST) in_order_.join(here.clock);
  Store store{value, own_step(), vt::scheduler().now(), releases_by(order) ? here.clock : here.of_release_fence};
  here.clock.advance(vt::self->number);
  return store;
}

void Detector::at_atomic(const void* address) {
  self().group = vt::self->group;
  if (options_.at_atomic == nullptr || is_own_stack(number_of(address))) return;
  Inside::is_inside = false;
  options_.at_atomic();
  Inside::is_inside = true;
}

void Detector::note_atomic(const void* address, std::size_t bytes, bool is_write, const void* place) {
  if (!is_own_stack(number_of(address))) note(common_address(address), bytes, {own_step(), place, is_write, true});
}

std::uint64_t Detector::load(const void* address, std::uint64_t value, int order, bool must_be_last) {
  Atomic& loaded = atomic(address, value);
  Thread& here = self();
  const bool is_in_order = order == __ATOMIC_SEQ_CST;
  std::size_t back = 0;
  if (options_.stale_one_in != 0 && !must_be_last) {
    if (is_in_order) here.ordered.join(in_order_);
    const std::size_t candidates = loaded.candidates(here.clock, here.ordered, is_in_order, vt::scheduler().now());
    if (candidates > 1 && random(options_.stale_one_in) == 0) back = 1 + random(candidates - 1);
  }
  if (back > 0) ++stale_loads_;
  const Store& store = loaded.look(own_step(), back, is_in_order);
  acquire(store.released, order);
  return store.value;
}

void Detector::store(const void* address, std::uint64_t former, std::uint64_t value, int order) {
  atomic(address, former).add(make_store(value, order), order == __ATOMIC_SEQ_CST);
}

void Detector::exchange(const void* address, std::uint64_t former, std::uint64_t value, int order) {
  Atomic& both = atomic(address, former);
  const VectorClock released = both.last().released;
  acquire(released, order);
  Store store = make_store(value, order);
  store.released.join(released);  // it continues the release sequence
  both.add(std::move(store), order == __ATOMIC_SEQ_CST);
}

// ---- the interface

bool is_available() noexcept { return true; }

void read(const void* data, std::size_t bytes) {
  const void* const place = __builtin_return_address(0);
  if_active([&](Detector& active) { active.access(data, bytes, false, place); });
}

void wrote(const void* data, std::size_t bytes) {
  const void* const place = __builtin_return_address(0);
  if_active([&](Detector& active) { active.access(data, bytes, true, place); });
}

void is_new(const void* data, std::size_t bytes) {
  if_active([&](Detector& active) { active.forget(data, bytes); });
}

void has_views(const void* data, std::size_t bytes, std::size_t views) {
  if_active([&](Detector& active) { active.has_views(data, bytes, views); });
}

void separates(const void* data, std::size_t bytes) {
  if_active([&](Detector& active) { active.separates(data, bytes); });
}

Detection::Detection(const Options& options) {
  const Inside inside;
  if (detector == nullptr) detector = std::make_unique<Detector>().release();
  detector->begin(options);
  vt::observer = &observer;
  is_open = true;
}

Detection::~Detection() {
  is_open = false;
  vt::observer = nullptr;
}

std::vector<Race> Detection::races() const { return detector->races(); }
std::uint64_t Detection::accesses() const noexcept { return detector->accesses(); }
std::uint64_t Detection::stale_loads() const noexcept { return detector->stale_loads(); }

}  // namespace lockstep::races
