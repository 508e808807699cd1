// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON as text, piece by piece. The library does not make values of nlohmann::json for this: the destructor of a
// list or an object allocates memory, and the process ends if there is none.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::detail {

/// `text` as a string of JSON, with its quotes. Bytes that are not UTF-8, which texts of the user may have, are
/// replaced.
[[nodiscard]] std::string json_string(std::string_view text);
/// `number` with as few digits as identify it; null if it is not finite.
[[nodiscard]] std::string json_number(double number);

/// The text of one value. Its parts are written in their order, with commas between them. After an exception, only the
/// destructor may be called.
class JsonWriter {
 public:
  enum class Form : std::uint8_t { one_line, indented };  ///< by one space for each level

  explicit JsonWriter(Form form = Form::one_line) : form_(form) {}

  JsonWriter& begin_object() { return begin('{'); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array() { return begin('['); }
  JsonWriter& end_array() { return end(']'); }
  /// The next value belongs to the member `name` of the object.
  JsonWriter& name(std::string_view name);
  /// A text, a number, an optional, which is null if it is empty, or a list of such values.
  template <class T>
  JsonWriter& value(const T& value);
  template <class T>
  JsonWriter& member(std::string_view its_name, const T& its_value) {
    return name(its_name).value(its_value);
  }
  /// The complete text.
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  /// Writes what is between this value, or the name before it, and the one before.
  void begin_part();
  void begin_line();
  JsonWriter& put(std::string_view scalar);

  Form form_;
  std::string text_;
  std::size_t depth_ = 0;
  bool is_first_ = true;   // in its list or object
  bool has_name_ = false;  // the name of the next value is written
};

template <class T>
JsonWriter& JsonWriter::value(const T& value) {
  static_assert(!std::same_as<T, bool>, "no file has truth values");
  if constexpr (std::integral<T>) {
    return put(std::to_string(value));
  } else if constexpr (std::floating_point<T>) {
    return put(json_number(value));
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    return put(json_string(value));
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? this->value(*value) : put("null");
  } else {
    begin_array();
    for (const auto& each : value) this->value(each);
    return end_array();
  }
}

}  // namespace lockstep::detail
