// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Parses the header of a .npy file: magic number, version, length of the dictionary, and dictionary as Python prints
// it:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }

#include "input/array_files.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::input {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header = 64 * 1024;  // a header with 8 axes has about 120 characters

/// Reads Python literals from left to right.
class Literals {
 public:
  Literals(std::string_view text, const std::string& file) noexcept : rest_(text), whole_(text), file_(file) {}

  [[nodiscard]] bool is_next(char c) {
    skip_spaces();
    return !rest_.empty() && rest_.front() == c;
  }
  [[nodiscard]] bool take_if(char c) {
    if (!is_next(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void take(char c) {
    if (!take_if(c)) fail(std::string("expected ") + c);
  }
  [[nodiscard]] std::string_view quoted() {
    const char quote = is_next('"') ? '"' : '\'';
    if (!take_if(quote)) fail("expected a quoted string");
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("unclosed quote");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  [[nodiscard]] bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    fail("expected True or False for fortran_order");
  }
  [[nodiscard]] std::int64_t integer() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) fail("expected an extent from 0 to 2^63 - 1");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    static_cast<void>(take_if('L'));  // Python 2's suffix of long integers
    return value;
  }
  void end() {
    skip_spaces();
    if (!rest_.empty()) fail("unexpected text after the dictionary");
  }
  [[noreturn]] void fail(std::string_view rule) const {
    detail::throw_error(Code::data_loss, "{} is damaged: its .npy header cannot be read at character {}: {}", file_,
                        whole_.size() - rest_.size(), rule);
  }

 private:
  void skip_spaces() noexcept {
    const std::size_t first = rest_.find_first_not_of(" \t\n");
    rest_.remove_prefix(std::min(first, rest_.size()));
  }
  std::string_view rest_;
  std::string_view whole_;
  const std::string& file_;
};

struct Dictionary {
  std::optional<std::string_view> descr;
  std::optional<bool> is_fortran;
  std::optional<std::vector<std::int64_t>> shape;
};

std::vector<std::int64_t> tuple(Literals& text) {
  std::vector<std::int64_t> extents;
  text.take('(');
  while (!text.is_next(')')) {
    extents.push_back(text.integer());
    if (!text.take_if(',')) break;
  }
  text.take(')');
  return extents;
}

Dictionary dictionary(Literals& text, const std::string& file) {
  Dictionary result;
  text.take('{');
  while (!text.is_next('}')) {
    const std::string_view key = text.quoted();
    text.take(':');
    if (key == "descr" && text.is_next('[')) {
      detail::throw_error(
          Code::invalid_argument,
          "{} has an array of structures, which is not supported; save each of its fields as a separate array", file);
    }
    if (key == "descr") {
      result.descr = text.quoted();
    } else if (key == "fortran_order") {
      result.is_fortran = text.boolean();
    } else if (key == "shape") {
      result.shape = tuple(text);
    } else {
      text.fail("unknown key; expected descr, fortran_order or shape");
    }
    if (!text.take_if(',')) break;
  }
  text.take('}');
  text.end();
  if (!result.descr || !result.is_fortran || !result.shape) {
    text.fail("one of the keys descr, fortran_order and shape is missing");
  }
  return result;
}

std::optional<DType> dtype_of_descr(std::string_view kind) noexcept {
  constexpr std::array<std::pair<std::string_view, DType>, 12> names{{{"b1", DType::boolean},
                                                                      {"i1", DType::i8},
                                                                      {"i2", DType::i16},
                                                                      {"i4", DType::i32},
                                                                      {"i8", DType::i64},
                                                                      {"u1", DType::u8},
                                                                      {"u2", DType::u16},
                                                                      {"u4", DType::u32},
                                                                      {"u8", DType::u64},
                                                                      {"f2", DType::f16},
                                                                      {"f4", DType::f32},
                                                                      {"f8", DType::f64}}};
  const auto found = std::ranges::find(names, kind, [](const auto& name) { return name.first; });
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

/// `order` is '<' for little-endian, '>' for big-endian, '=' for this machine's byte order, '|' for types of one byte.
bool is_swapped(char order) noexcept { return order == (std::endian::native == std::endian::little ? '>' : '<'); }

void read_part(ByteStream& stream, std::span<std::byte> bytes, const char* part) {
  const std::size_t count = stream.read(bytes);
  if (count == bytes.size()) return;
  detail::throw_error(Code::data_loss, "{} is truncated: expected {} bytes for the .npy {}, found {}", stream.name(),
                      bytes.size(), part, count);
}

std::size_t header_length(ByteStream& stream) {
  std::array<std::byte, 8> start{};
  const std::size_t count = stream.read(start);
  if (count < magic.size() || !std::equal(
                                  magic.begin(), magic.end(), start.begin(),
                                  [](char a, std::byte b) { return static_cast<std::byte>(a) == b; })) {
    detail::throw_error(Code::invalid_argument, "{} is not a .npy file: it does not begin with \\x93NUMPY",
                        stream.name());
  }
  const auto version = count < start.size() ? 0U : std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3) {
    detail::throw_error(Code::invalid_argument, "{} has version {} of the .npy format; versions 1 to 3 are supported",
                        stream.name(), version);
  }
  std::array<std::byte, 4> length{};
  read_part(stream, std::span(length).first(version == 1 ? 2 : 4), "header's length");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < length.size(); ++i) bytes |= std::to_integer<std::size_t>(length[i]) << (8 * i);
  if (bytes > longest_header) {
    detail::throw_error(Code::data_loss,
                        "{} is damaged: the length of its .npy header is given as {} bytes; at most {} are allowed",
                        stream.name(), bytes, longest_header);
  }
  return bytes;
}

}  // namespace

ArrayHeader parse_npy_header(ByteStream& stream) {
  std::string text(header_length(stream), '\0');
  read_part(stream, std::as_writable_bytes(std::span(text)), "header");
  Literals literals(text, stream.name());
  const Dictionary values = dictionary(literals, stream.name());
  const std::string_view descr = *values.descr;
  const bool has_order = !descr.empty() && std::string_view("<>=|").find(descr.front()) != std::string_view::npos;
  const std::optional<DType> dtype = has_order ? dtype_of_descr(descr.substr(1)) : std::nullopt;
  if (!dtype) {
    detail::throw_error(Code::invalid_argument,
                        "{} has elements of type '{}'; supported types are bool, integers of 8 to 64 bits, f16, f32 "
                        "and f64: convert the array with astype",
                        stream.name(), descr);
  }
  return array_header(stream, *dtype, *values.shape,
                      {.is_swapped = is_swapped(descr.front()), .is_fortran = *values.is_fortran});
}

}  // namespace lockstep::input
