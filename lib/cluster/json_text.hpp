// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace lockstep::detail {

using OrderedJson = nlohmann::ordered_json;

/// `json` on one line. Bytes that are not UTF-8, which texts of the user may have, are replaced.
[[nodiscard]] inline std::string to_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace lockstep::detail
