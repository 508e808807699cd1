// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_ranges.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "base/time_stamp.hpp"

#include <lockstep/cluster/trace.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace lockstep {
namespace detail {
namespace {

struct Ranges {
  Mutex mutex;
  std::vector<CompleteRange> complete LOCKSTEP_GUARDED_BY(mutex);
  std::map<std::string, std::uint32_t, std::less<>> numbers LOCKSTEP_GUARDED_BY(mutex);
  std::vector<std::string> new_names LOCKSTEP_GUARDED_BY(mutex);
  std::uint64_t dropped LOCKSTEP_GUARDED_BY(mutex) = 0;
};

/// Never destroyed: threads may end ranges at any time.
Ranges& ranges() {
  static NeverDestroyed<Ranges> of_this_process;
  return *of_this_process;
}

ProcessFlag keeps_ranges;
std::atomic<std::uint32_t> threads{0};

std::uint32_t number_of_this_thread() noexcept {
  thread_local const std::uint32_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

/// The number of the range `name`.
std::uint32_t begin_range(std::string_view name) {
  Ranges& all = ranges();
  const MutexLock lock(all.mutex);
  if (const auto found = all.numbers.find(name); found != all.numbers.end()) return found->second;
  if (all.numbers.size() == most_range_names) name = "other ranges";
  const auto number = static_cast<std::uint32_t>(all.numbers.size());
  const auto [entry, is_new] = all.numbers.emplace(name, number);
  if (is_new) all.new_names.emplace_back(name);
  return entry->second;
}

void end_range(const CompleteRange& range) {
  Ranges& all = ranges();
  const MutexLock lock(all.mutex);
  if (all.complete.size() < all.complete.capacity()) {
    all.complete.push_back(range);
  } else {
    ++all.dropped;
  }
}

}  // namespace

void keep_trace_ranges(bool keeps) {
  if (keeps) {
    Ranges& all = ranges();
    const MutexLock lock(all.mutex);
    all.complete.clear();
    all.complete.reserve(most_ranges);
    all.dropped = 0;
    all.new_names.resize(all.numbers.size());  // a second trace of the process has the names of the first one, too
    for (const auto& [name, number] : all.numbers) all.new_names[number] = name;
  }
  keeps_ranges.set(keeps);
}

TakenRanges take_trace_ranges() {
  TakenRanges taken;
  Ranges& all = ranges();
  const MutexLock lock(all.mutex);
  if (!all.complete.empty()) {
    taken.ranges.reserve(most_ranges);
    std::swap(taken.ranges, all.complete);
  }
  std::swap(taken.new_names, all.new_names);
  taken.dropped = all.dropped;
  return taken;
}

}  // namespace detail

TraceRange::TraceRange(std::string_view name) noexcept {
  using namespace detail;
  if (!keeps_ranges.is_set()) return;
  try {
    name_ = begin_range(name);
    begin_ = time_stamp();
  } catch (const std::exception&) {  // out of memory: the range is left out
  }
}

TraceRange::~TraceRange() {
  using namespace detail;
  if (begin_ == 0 || !keeps_ranges.is_set()) return;
  end_range({begin_, time_stamp(), name_, number_of_this_thread()});
}

}  // namespace lockstep
