// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Values of the program, such as its loss, for the metrics file of LOCKSTEP_METRICS.

#pragma once

#include <lockstep/base/export.hpp>

#include <string>
#include <string_view>

namespace lockstep {

/// Sets the value `name` in the metrics file of this rank (LOCKSTEP_METRICS), which is written about once a second: the
/// file has the last value of each name. Names that tools know: "loss"; "progress", from 0 to 1; "images_per_s". A
/// value that is not finite is null in JSON. At most 256 names are kept; further names are ignored, with one warning.
/// Local. Thread-safe; callable in any context. If LOCKSTEP_METRICS is not set, or before the first Environment or
/// communicator over MPI exists, the call does nothing and costs one load; otherwise it takes a mutex, and allocates
/// memory for a new name only.
LOCKSTEP_API void report_value(std::string_view name, double value);

/// The path of the metrics file of `rank` if LOCKSTEP_METRICS is `path`, for tools that read it: `.rank<rank>` is
/// inserted before the extension of `path`, or appended. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::string metrics_path(const std::string& path, int rank);

}  // namespace lockstep
