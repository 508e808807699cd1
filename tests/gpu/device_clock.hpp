// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures the time of work on the first GPU.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "device/cuda/streams.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace lockstep::test {

/// Launches one unit of work on a stream of the current device. `number` counts the launches, from 0.
using Launch = std::function<detail::cuda::Status(detail::cuda::Stream stream, int number)>;

/// The length of a measurement.
struct Effort {
  double round_seconds = 2e-3;  ///< least time of a round, long compared with the synchronization at its end
  int rounds = 7;               ///< number of rounds, whose median is the result
};

/// A stream of the first GPU, and the host's clock. Waits for at most a minute; after that, or if CUDA fails, it
/// throws.
class DeviceClock {
 public:
  explicit DeviceClock(const Effort& effort) : effort_(effort), stream_(0) {}

  void run(const Launch& launch, int launches = 1) const;
  /// Microseconds per launch, if many are launched in a row.
  [[nodiscard]] double us_of(const Launch& launch) const;
  /// Microseconds from a launch until the host sees its end.
  [[nodiscard]] double latency_us_of(const Launch& launch) const;
  [[nodiscard]] const Effort& effort() const noexcept { return effort_; }

 private:
  [[nodiscard]] double seconds_of(const Launch& launch, int launches) const;

  Effort effort_;
  detail::cuda::OwnedStream stream_;
};

/// Microseconds per launch in a replayed CUDA graph of `launches` launches; none on fake GPUs.
[[nodiscard]] std::optional<double> graph_us_of(const Launch& launch, int launches, const Effort& effort);

[[nodiscard]] double median(std::vector<double> values);

}  // namespace lockstep::test
