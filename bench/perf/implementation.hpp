// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One implementation of a call, to be interleaved with others: lockstep's, MPI's, NCCL's, or the limit.

#pragma once

#include <cstdint>
#include <optional>

namespace perf {

/// Only `run` is timed.
class Implementation {
 public:
  Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  /// Writes the inputs of call number `call`. Local.
  virtual void write(std::int64_t call) = 0;
  /// Collective if the measured call is.
  virtual void run() = 0;
  /// Reads the outputs and returns the number of elements that differ from the expected ones of call number `call`.
  /// Local.
  [[nodiscard]] virtual std::int64_t count_wrong(std::int64_t call) const = 0;
  /// Reads the outputs. Local.
  virtual void touch_outputs() const = 0;
  /// After `run`: the time until the asynchronous call returned; none if the call was not asynchronous. Local.
  [[nodiscard]] virtual std::optional<double> posted_seconds() const = 0;
};

}  // namespace perf
