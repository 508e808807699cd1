// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/harness/option_values.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <span>
#include <sstream>
#include <string>

namespace perf {
namespace {

std::optional<std::int64_t> digits(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A name of lockstep, and the name that other programs give to the same thing.
struct Spelling {
  std::string_view own;
  std::string_view other;
};

/// Those of nccl-tests and of C++. lockstep::parse_dtype knows the names of NumPy, such as float32.
constexpr std::array<Spelling, 4> dtype_spellings{
    {{"f16", "half"}, {"f32", "float"}, {"f64", "double"}, {"i32", "int"}}};
constexpr std::array<Spelling, 1> op_spellings{{{"mean", "avg"}}};

/// "f16 (half), ...".
std::string names_of(std::span<const Spelling> spellings) {
  std::string text;
  for (const auto& [own, other] : spellings) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", own, other);
  return text;
}

/// lockstep's name for `name`, if that is another spelling of one.
std::string own_name(std::string_view name, std::span<const Spelling> spellings) {
  const auto found =
      std::find_if(spellings.begin(), spellings.end(), [&](const Spelling& s) { return s.other == name; });
  return std::string(found != spellings.end() ? found->own : name);
}

/// `name` without underscores, in lower case: allreduce, AllReduce and all_reduce are one name.
std::string without_style(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain == "bcast" ? "broadcast" : plain;
}

/// Parses a comma-separated list of names. "all" selects all `count` enumerators. `others` are
/// further spellings, for error texts.
template <class Value, class Parse>
std::vector<Value> list(std::string_view option, const std::string& text, int count, const std::string& others,
                        Parse parse) {
  std::vector<Value> values;
  if (text == "all") {
    for (int i = 0; i < count; ++i) values.push_back(static_cast<Value>(i));
    return values;
  }
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    try {
      values.push_back(parse(entry));
    } catch (const lockstep::Error& error) {
      refuse("{} \"{}\": {}; also {}; separate several names by commas; \"all\" selects every one", option, text,
             error.text(), others);
    }
  }
  if (values.empty())
    refuse("{} \"{}\": the list is empty; give one name, several names separated by commas, or \"all\"", option, text);
  return values;
}

}  // namespace

std::int64_t size_bytes(std::string_view option, std::string_view text) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  int shift = 0;
  std::string_view number = text;
  if (!number.empty()) {
    switch (number.back()) {
      case 'K':
      case 'k': shift = 10; break;
      case 'M':
      case 'm': shift = 20; break;
      case 'G':
      case 'g': shift = 30; break;
      default: break;
    }
    if (shift != 0) number.remove_suffix(1);
  }
  const std::optional<std::int64_t> value = digits(number);
  if (!value || *value < 1 || *value > (most >> shift)) {
    refuse("{} \"{}\": give a number of bytes from 1 to 1024G, such as 8, 64K, 16M or 1G", option, text);
  }
  return *value << shift;
}

std::int64_t whole_number(std::string_view option, std::string_view text, std::int64_t least, std::int64_t most,
                          std::string_view rule) {
  const std::optional<std::int64_t> value = digits(text);
  if (!value || *value < least || *value > most) refuse("{} \"{}\": give {}", option, text, rule);
  return *value;
}

std::size_t one_of(std::string_view option, std::string_view text, std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) refuse("{} \"{}\": give one of {}", option, text, fmt::join(names, ", "));
  return static_cast<std::size_t>(found - names.begin());
}

std::vector<lockstep::DType> dtypes(std::string_view option, const std::string& text) {
  return list<lockstep::DType>(
      option, text, lockstep::dtype_count, names_of(dtype_spellings) + " and names such as float32, bfloat16, uint8",
      [](std::string_view name) { return lockstep::parse_dtype(own_name(name, dtype_spellings)); });
}

std::vector<lockstep::ReduceOp> reduce_ops(std::string_view option, const std::string& text) {
  return list<lockstep::ReduceOp>(
      option, text, lockstep::reduce_op_count, names_of(op_spellings),
      [](std::string_view name) { return lockstep::parse_reduce_op(own_name(name, op_spellings)); });
}

std::vector<Form> forms(std::string_view option, const std::string& text) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < form_count; ++i) names.push_back(to_string(static_cast<Form>(i)));
  return list<Form>(option, text, static_cast<int>(form_count), {}, [&](const std::string& name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      refuse("{} \"{}\": \"{}\" is not one of {}; separate several names by commas; \"all\" selects every one", option,
             text, name, fmt::join(names, ", "));
    }
    return static_cast<Form>(found - names.begin());
  });
}

std::vector<Collective> collectives(std::string_view option, const std::string& text) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < collective_count; ++i) names.push_back(traits(static_cast<Collective>(i)).name);
  return list<Collective>(option, text, static_cast<int>(collective_count), {}, [&](const std::string& name) {
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](std::string_view own) { return without_style(own) == without_style(name); });
    if (found == names.end()) {
      refuse(
          "{} \"{}\": \"{}\" is not one of {}; also without underscores (allreduce), and bcast; separate several "
          "names by commas; \"all\" selects every one",
          option, text, name, fmt::join(names, ", "));
    }
    return static_cast<Collective>(found - names.begin());
  });
}

}  // namespace perf
