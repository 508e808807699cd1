// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/safetensors_header.hpp"

#include "base/check.hpp"
#include "base/json_reader.hpp"
#include "base/phrases.hpp"
#include "base/printable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<DType, std::string_view>, dtype_count> dtype_names{{
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::f32, "F32"},
    {DType::f64, "F64"},
    {DType::i8, "I8"},
    {DType::i16, "I16"},
    {DType::i32, "I32"},
    {DType::i64, "I64"},
    {DType::u8, "U8"},
    {DType::u16, "U16"},
    {DType::u32, "U32"},
    {DType::u64, "U64"},
    {DType::boolean, "BOOL"},
}};

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t data_alignment = 64;

/// Parses the text, which must be an object.
JsonDocument parsed(std::string_view text, const std::string& file) {
  std::string reason;
  try {
    JsonDocument json = read_json(text);
    if (json->is_object()) return json;
  } catch (const JsonError& error) {
    reason = std::string(": ") + error.what();
  }
  throw_error(Code::data_loss,
              "{}: the header is not a JSON object with unique names{}; the file is damaged, or not a safetensors file",
              file, reason);
}

DType dtype_in(const Json& entry, const std::string& file, const std::string& name) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string())
    throw_error(Code::data_loss, "{}: tensor \"{}\" has no dtype; the file is damaged", file, name);
  const auto text = found->get<std::string>();
  for (const auto& [dtype, dtype_name] : dtype_names) {
    if (dtype_name == text) return dtype;
  }
  throw_error(Code::unimplemented, "{}: tensor \"{}\" has elements of type \"{}\", which lockstep does not support",
              file, name, printable(text));
}

/// The member `key` of `entry` as a list; nullopt if the member is missing or is not a list of unsigned integers.
std::optional<std::vector<std::uint64_t>> numbers_in(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Shape shape_in(const Json& entry, const std::string& file, const std::string& name) {
  const auto numbers = numbers_in(entry, "shape");
  if (!numbers) throw_error(Code::data_loss, "{}: tensor \"{}\" has no shape; the file is damaged", file, name);
  if (numbers->size() > static_cast<std::size_t>(Shape::max_rank)) {
    throw_error(Code::unimplemented, "{}: tensor \"{}\" has {} axes; lockstep supports at most {}", file, name,
                numbers->size(), Shape::max_rank);
  }
  std::vector<std::int64_t> extents;
  for (const std::uint64_t number : *numbers) {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw_error(Code::data_loss, "{}: tensor \"{}\" has an extent of {}, which is too large; the file is damaged",
                  file, name, number);
    extents.push_back(static_cast<std::int64_t>(number));
  }
  try {
    return Shape(std::span<const std::int64_t>(extents));
  } catch (const Error&) {  // too many elements
    throw_error(Code::data_loss, "{}: tensor \"{}\" has too many elements; the file is damaged", file, name);
  }
}

TensorEntry entry_of(const std::string& key, const Json& json, std::uint64_t data_bytes, const std::string& file) {
  const std::string name = printable(key);  // for errors
  if (!json.is_object())
    throw_error(Code::data_loss, "{}: the entry \"{}\" is not a JSON object; the file is damaged", file, name);
  TensorEntry entry{key, dtype_in(json, file, name), shape_in(json, file, name), 0, 0};
  const auto offsets = numbers_in(json, "data_offsets");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1] || (*offsets)[1] > data_bytes) {
    throw_error(
        Code::data_loss,
        "{}: tensor \"{}\" has no byte range within the file's {} bytes of data; the file is truncated or damaged",
        file, name, data_bytes);
  }
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  const auto count = static_cast<std::uint64_t>(entry.shape.element_count());
  const std::uint64_t size = size_of(entry.dtype);
  if (entry.byte_count() % size != 0 || entry.byte_count() / size != count) {
    throw_error(Code::data_loss, "{}: tensor \"{}\" is {}{} but has {} bytes; the file is damaged", file, name,
                to_string(entry.dtype), to_string(entry.shape), entry.byte_count());
  }
  return entry;
}

/// `text` as a string of JSON. Throws nlohmann::json::exception if it is not valid UTF-8.
std::string quoted(const std::string& text) { return Json(text).dump(); }

void read_metadata(const Json& json, std::map<std::string, std::string>& metadata, const std::string& file) {
  if (!json.is_object()) throw_error(Code::data_loss, "{}: __metadata__ is not an object; the file is damaged", file);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string())
      throw_error(Code::data_loss, "{}: __metadata__ \"{}\" is not a string; the file is damaged", file,
                  printable(key));
    metadata[key] = value.get<std::string>();
  }
}

}  // namespace

std::string_view safetensors_name(DType dtype) noexcept {
  return std::find_if(dtype_names.begin(), dtype_names.end(), [dtype](const auto& row) { return row.first == dtype; })
      ->second;
}

std::uint64_t header_length(std::string_view first_8_bytes, std::uint64_t file_bytes, const std::string& file) {
  if (file_bytes < length_bytes || first_8_bytes.size() < length_bytes) {
    throw_error(Code::data_loss,
                "{}: the file has {}, too few for a safetensors file; it is truncated, or not a safetensors file", file,
                counted(file_bytes, "byte"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(first_8_bytes[i]);
  if (length > most_header_bytes || length > file_bytes - length_bytes) {
    throw_error(Code::data_loss,
                "{}: the length of the header is given as {} bytes, but the file has {}; it is truncated, or not a "
                "safetensors file",
                file, length, file_bytes);
  }
  return length;
}

SafetensorsHeader parse_header(std::string_view json, std::uint64_t file_bytes, const std::string& file) {
  const JsonDocument root = parsed(json, file);
  SafetensorsHeader header;
  header.data_offset = length_bytes + json.size();
  header.data_bytes = file_bytes - header.data_offset;
  for (const auto& [name, entry] : root->items()) {
    if (name == "__metadata__") {
      read_metadata(entry, header.metadata, file);
    } else {
      header.tensors.push_back(entry_of(name, entry, header.data_bytes, file));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t next = 0;
  for (const TensorEntry& entry : header.tensors) {
    if (entry.begin != next) {
      throw_error(Code::data_loss,
                  "{}: tensor \"{}\" begins at byte {} of the data, but the tensors before it end at byte {}; the file "
                  "is damaged",
                  file, printable(entry.name), entry.begin, next);
    }
    next = entry.end;
  }
  if (next != header.data_bytes) {
    throw_error(Code::data_loss, "{}: the tensors have {} bytes, but the file has {}; it is truncated or damaged", file,
                next, header.data_bytes);
  }
  return header;
}

void check_elements(std::span<const std::byte> bytes, const TensorEntry& entry, const std::string& file) {
  if (entry.dtype != DType::boolean) return;
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte > std::byte{1}; });
  if (wrong == bytes.end()) return;
  throw_error(Code::data_loss, "{}: tensor \"{}\" is bool, but has an element with the value {}; the file is damaged",
              file, printable(entry.name), static_cast<int>(*wrong));
}

std::string format_header(SafetensorsHeader& header) {
  // wide elements first, so that all tensors are aligned
  std::vector<TensorEntry> sorted;
  for (const std::size_t size : {8U, 4U, 2U, 1U}) {
    std::copy_if(header.tensors.begin(), header.tensors.end(), std::back_inserter(sorted),
                 [size](const TensorEntry& entry) { return size_of(entry.dtype) == size; });
  }
  header.tensors = std::move(sorted);
  std::string text = "{";
  const auto add = [&text](const std::string& key, const std::string& value) {
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", quoted(key), value);
  };
  if (!header.metadata.empty()) {
    std::string members;
    for (const auto& [key, value] : header.metadata)
      members += fmt::format("{}{}:{}", members.empty() ? "" : ",", quoted(key), quoted(value));
    add("__metadata__", "{" + members + "}");
  }
  std::uint64_t next = 0;
  for (TensorEntry& entry : header.tensors) {
    entry.begin = next;
    next += static_cast<std::uint64_t>(entry.shape.element_count()) * size_of(entry.dtype);
    entry.end = next;
    add(entry.name,
        fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", safetensors_name(entry.dtype),
                    fmt::join(entry.shape.extents(), ","), entry.begin, entry.end));
  }
  text += '}';
  text.append((data_alignment - (length_bytes + text.size()) % data_alignment) % data_alignment, ' ');
  std::string bytes;
  for (std::size_t i = 0; i < length_bytes; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
  header.data_offset = length_bytes + text.size();
  header.data_bytes = next;
  return bytes + text;
}

}  // namespace lockstep::detail
