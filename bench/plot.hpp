// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A picture of the rows, drawn by gnuplot, which is looked for when it is asked for.

#pragma once

#include "row.hpp"

#include <span>
#include <string>

namespace perf {

/// Throws OptionError when gnuplot is not in PATH. Local.
void require_gnuplot(const std::string& target);

/// Has gnuplot draw time over size, a line for each call, placement and contestant; of a list a bar for each mode.
/// `target` is FILE.png, FILE.svg, FILE.txt, or - for the terminal. Throws std::runtime_error when gnuplot fails.
/// Local.
void draw(std::span<const Row> rows, const std::string& target);

}  // namespace perf
