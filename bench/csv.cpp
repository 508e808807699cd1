// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "csv.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace perf {
namespace {

std::string in_quotes(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

std::string field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return {};
  return in_quotes(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

std::string csv_of(const nlohmann::ordered_json& rows) {
  std::vector<std::string> names;
  if (!rows.empty()) {
    for (const auto& [name, value] : rows.front().items()) names.push_back(in_quotes(name));
  }
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  for (const auto& row : rows) {
    std::vector<std::string> fields;
    for (const auto& value : row) fields.push_back(field(value));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

}  // namespace perf
