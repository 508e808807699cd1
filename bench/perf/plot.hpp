// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A plot of the rows, drawn by gnuplot, which is needed only if a plot is requested.

#pragma once

#include "bench/perf/row.hpp"

#include <span>
#include <string>

namespace perf {

/// Throws OptionError if gnuplot is not in PATH. Local.
void require_gnuplot(const std::string& target);

/// Plots time over size, with a line for each call, placement and implementation; for a list, a bar for each mode.
/// `target` is FILE.png, FILE.svg, FILE.txt, or - for the terminal. Throws std::runtime_error if gnuplot fails. Local.
void draw(std::span<const Row> rows, const std::string& target);

}  // namespace perf
