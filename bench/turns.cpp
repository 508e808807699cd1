// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "turns.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace perf {

/// Of one contestant on one rank.
struct Turns::Record {
  std::vector<double> seconds;
  std::vector<double> posted_seconds;
  std::int64_t wrong = 0;
};

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

std::vector<Outcome> Turns::run(std::span<Contestant* const> contestants) {
  std::vector<Record> records(contestants.size());
  for (std::int64_t i = -options_.warmup_iterations; i < options_.iterations; ++i) {
    // each turn has inputs of its own: contestants may share buffers, where the last one's results still are
    for (std::size_t k = 0; k < contestants.size(); ++k, ++calls_) round(*contestants[k], records[k], i >= 0);
  }
  std::vector<Outcome> outcomes;
  for (const Record& record : records) outcomes.push_back(outcome(record));
  return outcomes;
}

void Turns::round(Contestant& contestant, Record& record, bool is_timed) const {
  using Clock = std::chrono::steady_clock;
  contestant.write(calls_);
  MPI_Barrier(control_.get());
  const Clock::time_point start = Clock::now();
  contestant.run();
  const Clock::time_point end = Clock::now();
  if (is_timed) {
    record.seconds.push_back(std::chrono::duration<double>(end - start).count());
    if (const auto posted = contestant.posted_seconds()) record.posted_seconds.push_back(*posted);
  }
  if (options_.check) {
    record.wrong += contestant.count_wrong(calls_);
  } else {
    contestant.touch_outputs();
  }
}

Outcome Turns::outcome(const Record& record) const {
  Outcome result;
  const std::vector<double> us = slowest_us(record.seconds);
  result.times_us = {percentile(us, 0.1), percentile(us, 0.5), percentile(us, 0.9), percentile(us, 0.99)};
  if (!record.posted_seconds.empty()) result.posted_us = percentile(slowest_us(record.posted_seconds), 0.5);
  std::int64_t wrong = 0;
  MPI_Allreduce(&record.wrong, &wrong, 1, MPI_INT64_T, MPI_SUM, control_.get());
  if (options_.check) result.wrong = wrong;
  return result;
}

std::vector<double> Turns::slowest_us(const std::vector<double>& seconds) const {
  std::vector<double> slowest(seconds.size());
  MPI_Reduce(seconds.data(), slowest.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX, 0, control_.get());
  for (double& value : slowest) value *= 1e6;
  return slowest;
}

}  // namespace perf
