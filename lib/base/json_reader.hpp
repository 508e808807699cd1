// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON that other processes have written, or that may be damaged: manifests, records, logs, variables. Programs
// of apps/ compile this source, too, so it uses no other part of lockstep but base/printable.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep::detail {

/// What a text may have at most. The memory of the result is bounded by these.
struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 30;
  std::size_t values = std::size_t{1} << 25;  ///< numbers, texts, lists and objects; 16 bytes each, and their content
  /// Lists and objects inside each other. Functions that print, compare or destroy a value call themselves so often.
  std::size_t depth = 64;
};

/// The rule that a text breaks.
enum class JsonRule : std::uint8_t { syntax, encoding, range, unique_names, depth, values, bytes };

/// A text is not what read_json accepts. The text of the error names the rule and the place: "invalid JSON at byte 7",
/// "the number 1e999 at byte 12 is out of range"; it is printable. Callers add the name of the file.
class JsonError : public std::runtime_error {
 public:
  JsonError(JsonRule rule, std::size_t byte, const std::string& text, std::string name = {})
      : std::runtime_error(text), rule_(rule), byte_(byte), name_(std::move(name)) {}

  [[nodiscard]] JsonRule rule() const noexcept { return rule_; }
  /// The place, counted from 1.
  [[nodiscard]] std::size_t byte() const noexcept { return byte_; }
  /// The name that an object has twice; else empty.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  JsonRule rule_;
  std::size_t byte_;
  std::string name_;
};

/// A value is not what its reader needs: "rank must be an integer from 0 to 9, but is 1.5"; the text is printable.
class JsonValueError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Destroys a value without an allocation. The destructor of nlohmann::json moves the elements of a list or an object
/// to memory that it allocates; if there is none, the process ends. Calls itself once for each level of nesting.
struct DestroyJson {
  void operator()(nlohmann::json* value) const noexcept;
};
/// A value that was read. A list or an object in it must not be copied where memory may run out: the copy would have
/// the destructor of nlohmann::json.
using JsonDocument = std::unique_ptr<nlohmann::json, DestroyJson>;

/// The value of `text`, all of which must be one JSON value. Names of an object are unique, texts are UTF-8, and
/// numbers finite. Throws JsonError as soon as a limit is exceeded; needs no stack for lists inside each other.
[[nodiscard]] JsonDocument read_json(std::string_view text, const JsonLimits& limits = {});
/// As `read_json`, for the content of a file, of which at most one block more than `limits.bytes` is read. Throws
/// std::system_error if the file cannot be read.
[[nodiscard]] JsonDocument read_json_file(const std::string& path, const JsonLimits& limits = {});

/// The integer that `value` is. Throws JsonValueError, which calls it `name`, if it is not an integer from `least` to
/// `most`. (nlohmann::json converts any number, and cuts off what does not fit.)
[[nodiscard]] std::int64_t json_signed(const nlohmann::json& value, const char* name, std::int64_t least,
                                       std::int64_t most);
[[nodiscard]] std::uint64_t json_unsigned(const nlohmann::json& value, const char* name, std::uint64_t most);

/// The integer that `value` is, which must fit into T; else as above.
template <std::integral T>
[[nodiscard]] T json_integer(const nlohmann::json& value, const char* name) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(json_signed(value, name, Limits::min(), Limits::max()));
  else
    return static_cast<T>(json_unsigned(value, name, Limits::max()));
}

}  // namespace lockstep::detail
