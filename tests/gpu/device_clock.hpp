// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How long work takes on the first GPU.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "device/cuda/streams.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace lockstep::test {

/// Puts one piece of work on a stream of the current device. `number` counts them, from 0.
using Launch = std::function<detail::cuda::Status(detail::cuda::Stream stream, int number)>;

/// How much is measured.
struct Effort {
  double round_seconds = 2e-3;  ///< of one round at least, beside which the wait for its end is short
  int rounds = 7;               ///< whose median counts
};

/// A stream of the first GPU, and the host's clock. Waits for at most a minute; then, and when CUDA fails, it throws.
class DeviceClock {
 public:
  explicit DeviceClock(const Effort& effort) : effort_(effort), stream_(0) {}

  void run(const Launch& launch, int launches = 1) const;
  /// Microseconds that a launch takes of many, one behind the other.
  [[nodiscard]] double us_of(const Launch& launch) const;
  /// Microseconds from a launch until the host has seen its end.
  [[nodiscard]] double latency_us_of(const Launch& launch) const;
  [[nodiscard]] const Effort& effort() const noexcept { return effort_; }

 private:
  [[nodiscard]] double seconds_of(const Launch& launch, int launches) const;

  Effort effort_;
  detail::cuda::OwnedStream stream_;
};

/// Microseconds that one of `launches` launches takes in a CUDA graph that is replayed; none where GPUs are not real.
[[nodiscard]] std::optional<double> graph_us_of(const Launch& launch, int launches, const Effort& effort);

[[nodiscard]] double median(std::vector<double> values);

}  // namespace lockstep::test
