// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A loop of calls.

#pragma once

#include "bench/perf/implementation.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace perf {

/// Makes one call after the other, as a loop in a program does. There is no barrier between them, so that a rank that
/// need not wait for the others runs ahead of them. Each call has buffers and values of its own.
class InTurn final : public Implementation {
 public:
  /// Local. There is at least one call; all are of the same case.
  explicit InTurn(std::vector<std::unique_ptr<Implementation>> calls);

  void write(std::int64_t call) override;
  void run() override;
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const override;
  void touch_outputs() const override;
  /// The sum over all calls.
  [[nodiscard]] std::optional<double> posted_seconds() const override;

 private:
  /// The number that selects the values of one of the calls.
  [[nodiscard]] std::int64_t number(std::int64_t call, std::size_t index) const;

  std::vector<std::unique_ptr<Implementation>> calls_;
};

}  // namespace perf
