// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/json_writer.hpp"

#include <nlohmann/json.hpp>

namespace lockstep::detail {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(double number) { return nlohmann::json(number).dump(); }

JsonWriter& JsonWriter::name(std::string_view name) {
  begin_part();
  text_ += json_string(name);
  text_ += form_ == Form::indented ? ": " : ":";
  has_name_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin(char bracket) {
  begin_part();
  text_ += bracket;
  ++depth_;
  is_first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  --depth_;
  if (!is_first_) begin_line();
  text_ += bracket;
  is_first_ = false;
  return *this;
}

void JsonWriter::begin_part() {
  if (!std::exchange(has_name_, false) && depth_ > 0) {
    if (!is_first_) text_ += ',';
    begin_line();
  }
  is_first_ = false;
}

void JsonWriter::begin_line() {
  if (form_ == Form::one_line) return;
  text_ += '\n';
  text_.append(depth_, ' ');
}

JsonWriter& JsonWriter::put(std::string_view scalar) {
  begin_part();
  text_ += scalar;
  return *this;
}

}  // namespace lockstep::detail
