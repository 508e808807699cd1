// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The table, as nccl-tests prints it: a line for each call, with a group of columns for each placement.

#pragma once

#include "bench/perf/options.hpp"
#include "bench/perf/row.hpp"

#include <optional>
#include <string>
#include <vector>

namespace perf {

/// The same call at each requested placement.
struct Line {
  Identity identity;  ///< identity at one of the placements
  std::int64_t bytes = 0;
  std::int64_t tensors = 1;
  int root = -1;
  std::vector<std::optional<Row>> cells;  ///< by placement; none if the call is not possible there
};

class Table {
 public:
  /// `has_hbm` adds the column with the limit of a GPU's memory.
  Table(const Options& options, bool has_hbm);
  /// The names and the units of the columns, each line beginning with #.
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string line(const Line& line) const;

 private:
  /// A column of the group of one placement.
  struct Column {
    std::string name;
    std::string unit;
    int width;
    std::string (*text)(const Row&);
  };
  [[nodiscard]] std::string fixed(const Line& line) const;

  const Options& options_;
  std::vector<Column> columns_;
};

}  // namespace perf
