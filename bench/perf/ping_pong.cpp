// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/ping_pong.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <limits>

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;
using Flag = std::atomic_ref<std::uint32_t>;

constexpr std::uint32_t stop = std::numeric_limits<std::uint32_t>::max();
constexpr int batches = 200;
constexpr int round_trips_of_batch = 100;

/// Waits until the flag is `wanted` or `stop`. Acquire, as a real message would.
std::uint32_t wait_for(Flag flag, std::uint32_t wanted) {
  for (int spins = 0;; ++spins) {
    const std::uint32_t value = flag.load(std::memory_order_acquire);
    if (value == wanted || value == stop) return value;
    if (spins > 20'000) sched_yield();  // the other rank may be waiting for a core
  }
}

}  // namespace

PingPong::PingPong(const OwnComm& node) : node_(node) {
  if (node.size() < 2) return;
  MPI_Comm_set_errhandler(node.get(), MPI_ERRORS_RETURN);
  void* own = nullptr;
  constexpr MPI_Aint line_bytes = 64;
  const MPI_Aint size_bytes = node.rank() == 0 ? 2 * line_bytes : 0;
  if (MPI_Win_allocate_shared(size_bytes, 1, MPI_INFO_NULL, node.get(), static_cast<void*>(&own), &window_) !=
      MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    return;
  }
  MPI_Aint size = 0;
  int unit = 0;
  void* first = nullptr;
  MPI_Win_shared_query(window_, 0, &size, &unit, static_cast<void*>(&first));
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  flag_ = static_cast<std::uint32_t*>(first);
}

PingPong::~PingPong() {
  if (window_ == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

std::optional<double> PingPong::round_trip_us(std::chrono::milliseconds most) {
  if (flag_ == nullptr) return std::nullopt;
  std::optional<double> result;
  if (node_.rank() == 0) Flag(*flag_).store(0);
  MPI_Barrier(node_.get());
  if (node_.rank() == 0) result = first_rank_us(most);
  if (node_.rank() == 1) second_rank();
  MPI_Barrier(node_.get());
  return result;
}

double PingPong::first_rank_us(std::chrono::milliseconds most) {
  const Flag flag(*flag_);
  const Clock::time_point begin = Clock::now();
  double fastest = std::numeric_limits<double>::infinity();
  std::uint32_t value = 0;
  for (int batch = 0; batch < batches && Clock::now() - begin < most; ++batch) {
    const Clock::time_point start = Clock::now();
    int done = 0;
    // two ranks that share a core need many milliseconds for a batch: then a shorter one must suffice
    while (done < round_trips_of_batch && (done % 10 != 0 || Clock::now() - begin < most)) {
      flag.store(value + 1, std::memory_order_release);
      value = wait_for(flag, value + 2);
      ++done;
    }
    if (done == 0) break;
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    fastest = std::min(fastest, us / done);
  }
  flag.store(stop, std::memory_order_release);
  return fastest;
}

void PingPong::second_rank() {
  const Flag flag(*flag_);
  for (std::uint32_t value = 1; wait_for(flag, value) != stop; value += 2)
    flag.store(value + 1, std::memory_order_release);
}

}  // namespace perf
