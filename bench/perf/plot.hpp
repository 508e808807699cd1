// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A plot of the rows: as a picture by lockstep-plot, which needs Python and matplotlib, or as text by gnuplot. Both are
// needed only if a plot is requested.

#pragma once

#include "bench/perf/row.hpp"

#include <span>
#include <string>

namespace perf {

/// Throws OptionError if the program that draws `target` is missing. Local.
void require_plotter(const std::string& target);

/// Plots `rows`, or `json`, the text of their result file. `target` is FILE.png, FILE.svg or FILE.pdf for a picture of
/// time, bus bandwidth and ratio; FILE.txt, or - for the terminal, for a text that shows the times. Throws
/// std::runtime_error if the program that draws fails. Local.
void draw(std::span<const Row> rows, const std::string& json, const std::string& target);

}  // namespace perf
