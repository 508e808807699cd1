// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of the JSON file for spreadsheets.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace perf {

/// A line of names and one for each object of `rows`, which all have the same names; null is empty. Local.
[[nodiscard]] std::string csv_of(const nlohmann::ordered_json& rows);

}  // namespace perf
