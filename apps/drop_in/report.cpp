// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// LOCKSTEP_MPI=report: what a program spends in collectives, and how much of it is waiting for other ranks. To tell the
// two apart, a barrier is made before each call, as in IPM.

#include "drop_in/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace lockstep::drop_in {
namespace {

using Clock = std::chrono::steady_clock;

/// Sizes are counted by powers of two: class k has 2^(k-1) to 2^k - 1 bytes.
constexpr int size_classes = 40;
constexpr int call_count = static_cast<int>(Call::count);

struct Row {
  std::atomic<std::int64_t> calls{0};
  std::atomic<std::int64_t> can_take{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<std::int64_t> wait_ns{0};
  std::atomic<std::int64_t> call_ns{0};
};

std::array<std::array<Row, size_classes>, call_count> rows;
std::atomic<bool> is_measuring{false};
Clock::time_point begin;

/// The numbers of one row as they are sent: calls, can_take, bytes, wait, time.
using Numbers = std::array<double, 5>;

std::string size_text(int size_class) {
  if (size_class == 0) return "-";
  const std::int64_t most = (std::int64_t{1} << size_class) - 1;
  if (most < 1024) return fmt::format("up to {} B", most);
  if (most < (1 << 20)) return fmt::format("up to {} KiB", (most + 1) >> 10);
  return fmt::format("up to {} MiB", (most + 1) >> 20);
}

std::int64_t ns(Clock::duration time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); }

}  // namespace

bool Report::is_on() noexcept { return is_measuring.load(std::memory_order_relaxed); }

void Report::turn_on() {
  begin = Clock::now();
  is_measuring = true;
}

int Report::measure(Call call, MPI_Comm comm, bool can_take, std::int64_t bytes, int (*hand_on)(void*), void* object) {
  const auto start = Clock::now();
  const bool has_others = ranks_of(comm) > 1;
  if (has_others && call != Call::Barrier) {
    const Inside inside;
    real.Barrier(comm);
  }
  const auto entered = Clock::now();
  int result = MPI_SUCCESS;
  {
    const Inside inside;
    result = hand_on(object);
  }
  const auto end = Clock::now();
  const int size_class =
      bytes <= 0 ? 0 : std::min(size_classes - 1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))));
  Row& row = rows[static_cast<std::size_t>(call)][static_cast<std::size_t>(size_class)];
  const auto add = [](std::atomic<std::int64_t>& sum, std::int64_t value) {
    sum.fetch_add(value, std::memory_order_relaxed);
  };
  add(row.calls, 1);
  add(row.can_take, can_take && has_others ? 1 : 0);
  add(row.bytes, bytes);
  // a barrier is nothing but waiting
  add(row.wait_ns, call == Call::Barrier ? ns(end - start) : ns(entered - start));
  add(row.call_ns, call == Call::Barrier ? 0 : ns(end - entered));
  return result;
}

void Report::print() {
  is_measuring = false;
  const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<Numbers> own;
  for (const auto& sizes : rows) {
    for (const Row& row : sizes) {
      own.push_back({static_cast<double>(row.calls), static_cast<double>(row.can_take), static_cast<double>(row.bytes),
                     static_cast<double>(row.wait_ns) * 1e-9, static_cast<double>(row.call_ns) * 1e-9});
    }
  }
  own.push_back({whole, 0, 0, 0, 0});
  std::vector<Numbers> sum(own.size());
  int rank = 0;
  int size = 1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  const int count = static_cast<int>(own.size() * own.front().size());
  if (real.Reduce(own.data(), sum.data(), count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD) != MPI_SUCCESS || rank != 0)
    return;
  const double total = sum.back()[0] / size;
  double waits = 0;
  double gain = 0;
  std::string text = fmt::format(
      "lockstep: collectives of {} ranks in {:.3g} s after MPI_Init; means per rank, with a barrier before each call\n"
      "{:<24}{:<16}{:>10}{:>12}{:>12}{:>12}{:>8}\n",
      size, total, "call", "size", "calls", "MiB", "waiting s", "in MPI s", "taken");
  auto next = sum.begin();
  for (int call = 0; call < call_count; ++call) {
    for (int size_class = 0; size_class < size_classes; ++size_class) {
      const Numbers& row = *next++;
      if (row[0] == 0) continue;
      text += fmt::format("{:<24}{:<16}{:>10.0f}{:>12.3g}{:>12.3g}{:>12.3g}{:>7.0f}%\n",
                          name_of(static_cast<Call>(call)), size_text(size_class), row[0] / size,
                          row[2] / size / (1 << 20), row[3] / size, row[4] / size, 100 * row[1] / row[0]);
      waits += row[3] / size;
      gain += row[4] / size * row[1] / row[0];
    }
  }
  text += fmt::format(
      "Waiting for other ranks: {:.1f} % of the time; no library shortens it. In MPI, in calls that lockstep would "
      "take "
      "over: {:.1f} %, which is the most that LOCKSTEP_MPI=on can gain.\n",
      100 * waits / total, 100 * gain / total);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace lockstep::drop_in
