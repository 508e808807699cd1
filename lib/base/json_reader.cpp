// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/json_reader.hpp"

#include "base/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

/// The characters of a text, for the parser. Counts those that it has taken.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Characters(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  Characters& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  friend bool operator==(const Characters& a, const Characters& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

/// Builds the value from the events of the parser, and throws at the first that breaks a rule. The parser has no
/// recursion.
class Builder {
 public:
  Builder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  [[nodiscard]] std::size_t* taken() { return &taken_; }
  [[nodiscard]] JsonDocument take() { return std::move(root_); }

  // The events; nlohmann::json defines their names and parameters. The result false would end the parser.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t& /*text*/) { return add(value); }
  bool string(Json::string_t& value) { return add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return false; }  // not in texts
  bool start_object(std::size_t /*size*/) { return open(Json::value_t::object); }
  bool start_array(std::size_t /*size*/) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(Json::string_t& name) {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [entry, is_new] = members.try_emplace(name);
    if (!is_new) {
      throw JsonError(JsonRule::unique_names, taken_,
                      fmt::format("duplicate name \"{}\" at byte {}", shown(name), taken_), name);
    }
    member_ = &entry->second;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& token, const Json::exception& error) {
    constexpr int out_of_range = 406;  // of a number
    if (error.id == out_of_range) {
      const std::size_t begin = begin_of_number();
      throw JsonError(JsonRule::range, begin + 1,
                      fmt::format("the number {} at byte {} is out of range", shown(token), begin + 1));
    }
    if (const std::size_t valid = utf8_prefix(text_); valid < taken_)
      throw JsonError(JsonRule::encoding, valid + 1, fmt::format("invalid UTF-8 at byte {}", valid + 1));
    throw JsonError(JsonRule::syntax, byte, fmt::format("invalid JSON at byte {}", byte));
  }

 private:
  [[nodiscard]] static std::string shown(const std::string& text) {
    constexpr std::size_t most = 40;
    return text.size() > most ? printable(text.substr(0, most)) + "..." : printable(text);
  }
  /// Index of the number that the parser has just read, and perhaps one character behind it.
  [[nodiscard]] std::size_t begin_of_number() const {
    const auto is_part = [&](std::size_t k) {
      return std::string_view("+-.eE0123456789").find(text_[k]) != std::string_view::npos;
    };
    std::size_t begin = taken_;
    if (begin > 0 && !is_part(begin - 1)) --begin;
    while (begin > 0 && is_part(begin - 1)) --begin;
    return begin;
  }
  template <class Value>
  bool add(Value&& value) {
    put(Json(std::forward<Value>(value)));
    return true;
  }
  /// Puts the value in its place. Returns the place, which is valid as long as no other value is put beside it.
  Json* put(Json value) {
    if (++values_ > limits_.values) {
      throw JsonError(JsonRule::values, taken_, fmt::format("more than {} values at byte {}", limits_.values, taken_));
    }
    if (open_.empty()) return &(*root_ = std::move(value));
    if (!open_.back()->is_array()) return &(*member_ = std::move(value));
    auto& elements = open_.back()->get_ref<Json::array_t&>();
    elements.push_back(std::move(value));
    return &elements.back();
  }
  bool open(Json::value_t type) {
    if (open_.size() == limits_.depth) {
      throw JsonError(JsonRule::depth, taken_,
                      fmt::format("more than {} levels of nesting at byte {}", limits_.depth, taken_));
    }
    open_.push_back(put(Json(type)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string_view text_;
  const JsonLimits& limits_;
  std::size_t taken_ = 0;
  std::size_t values_ = 0;
  JsonDocument root_{new Json};
  std::vector<Json*> open_;  // lists and objects that are not complete
  Json* member_ = nullptr;   // of the last name
};

/// Destroys what the list or object contains, from the inside. The destructor of an empty one allocates nothing.
void clear(Json& value) noexcept {
  if (auto* const elements = value.get_ptr<Json::array_t*>()) {
    for (Json& element : *elements) clear(element);
    elements->clear();
  } else if (auto* const members = value.get_ptr<Json::object_t*>()) {
    for (auto& [name, member] : *members) clear(member);
    members->clear();
  }
}

template <class Integer>
[[noreturn]] void refuse_value(const Json& value, const char* name, Integer least, Integer most) {
  const std::string found = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  throw JsonValueError(
      fmt::format("{} must be an integer from {} to {}, but is {}", name, least, most, printable(found.substr(0, 40))));
}

}  // namespace

void DestroyJson::operator()(nlohmann::json* value) const noexcept {
  clear(*value);
  delete value;
}

JsonDocument read_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw JsonError(JsonRule::bytes, limits.bytes + 1,
                    fmt::format("the text has {} bytes, but at most {} are allowed", text.size(), limits.bytes));
  }
  Builder builder(text, limits);
  const char* const begin = text.data();
  Json::sax_parse(Characters(begin, builder.taken()), Characters(begin + text.size(), builder.taken()), &builder);
  return builder.take();
}

JsonDocument read_json_file(const std::string& path, const JsonLimits& limits) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (file && text.size() <= limits.bytes) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file && !file.eof()) throw std::system_error(errno, std::generic_category());
  return read_json(text, limits);
}

std::int64_t json_signed(const Json& value, const char* name, std::int64_t least, std::int64_t most) {
  const bool fits =
      value.is_number_unsigned() ? std::in_range<std::int64_t>(value.get<std::uint64_t>()) : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    refuse_value(value, name, least, most);
  return value.get<std::int64_t>();
}

std::uint64_t json_unsigned(const Json& value, const char* name, std::uint64_t most) {
  // the parser makes an unsigned number of each one without a sign, but programs put others into values
  const bool fits = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!fits || value.get<std::uint64_t>() > most) refuse_value<std::uint64_t>(value, name, 0, most);
  return value.get<std::uint64_t>();
}

}  // namespace lockstep::detail
