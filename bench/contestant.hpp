// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One of those that take turns in a measurement: ours, MPI's, the limit.

#pragma once

#include <cstdint>
#include <optional>

namespace perf {

/// Of each call, only `run` is timed.
class Contestant {
 public:
  Contestant() = default;
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;
  virtual ~Contestant() = default;

  /// Writes the inputs of call number `call`. Local.
  virtual void write(std::int64_t call) = 0;
  /// Collective where what is measured is.
  virtual void run() = 0;
  /// Reads the outputs; the number of elements that are not those of call number `call`. Local.
  [[nodiscard]] virtual std::int64_t count_wrong(std::int64_t call) const = 0;
  /// Reads the outputs. Local.
  virtual void touch_outputs() const = 0;
  /// After `run`: how long it took until an asynchronous call returned; none where there was no such call. Local.
  [[nodiscard]] virtual std::optional<double> posted_seconds() const = 0;
};

}  // namespace perf
