// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/csv.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "core/visit_dtype.hpp"
#include "input/csv_reader.hpp"
#include "input/files_node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep::input {
namespace {

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <class T>
bool parse_number(std::string_view text, T& value) noexcept {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() && stop == end;
}

bool parse_bool(std::string_view text, bool& value) noexcept {
  for (const std::string_view word : {"1", "true", "True", "TRUE"}) {
    if (text == word) return value = true;
  }
  for (const std::string_view word : {"0", "false", "False", "FALSE"}) {
    if (text == word) return !(value = false);
  }
  return false;
}

/// Parses `text` as a value of `dtype`, and writes the value to `target`. Returns whether `text` is valid.
bool parse_value(std::string_view text, DType dtype, std::byte* target) {
  return detail::visit_dtype(dtype, [&]<class T>() {
    T value{};
    bool is_right = false;
    if constexpr (std::is_same_v<T, bool>) {
      is_right = parse_bool(text, value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      is_right = parse_number(text, value);
    } else {
      float wide = 0;
      is_right = parse_number(text, wide);
      value = T(wide);
    }
    if (is_right) std::memcpy(target, &value, sizeof(T));
    return is_right;
  });
}

/// The number of columns of the file that `column` selects.
std::size_t width_of(const CsvColumn& column) noexcept { return static_cast<std::size_t>(column.count.value_or(1)); }

/// The conversion of a dataset's records to elements.
struct CsvPlan {
  CsvOptions options;
  bool is_vector = false;  ///< all columns form one tensor
};

class CsvCursor final : public WholeCursor {
 public:
  CsvCursor(const std::string& path, std::shared_ptr<const CsvPlan> plan, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)),
        plan_(std::move(plan)),
        reader_(path, plan_->options.delimiter, plan_->options.records.max_record_bytes) {}
  bool advance() override {
    if (places_.empty() && !start()) return false;
    if (!has_first_ && !reader_.advance()) return false;
    has_first_ = false;
    if (reader_.fields().size() != field_count_) {
      detail::throw_error(Code::data_loss, "{}: the record has {}, but the first record of the file has {}",
                          reader_.place(), detail::counted(reader_.fields().size(), "field"), field_count_);
    }
    make_element();
    return true;
  }

 private:
  /// Reads the header, or the first record if there is no header, and finds the columns. Returns false if the file is
  /// empty.
  bool start() {
    if (!reader_.advance()) return false;
    field_count_ = reader_.fields().size();
    has_first_ = !plan_->options.has_header;
    if (plan_->options.has_header) names_.assign(reader_.fields().begin(), reader_.fields().end());
    std::size_t next = 0;
    for (const CsvColumn& column : plan_->options.columns) {
      if (!column.name.empty()) {
        next = place_of(column.name);
      } else if (column.index >= 0) {
        next = static_cast<std::size_t>(column.index);
      }
      const std::size_t width = width_of(column);
      if (next >= field_count_ || width > field_count_ - next) {
        detail::throw_error(Code::invalid_argument,
                            "{}: the file has {}, but columns[{}] selects {} {} (columns are numbered from 0)",
                            reader_.place(), detail::counted(field_count_, "column"), places_.size(),
                            width == 1 ? "column" : fmt::format("{} columns from column", width), next);
      }
      places_.push_back(next);
      next += width;
    }
    return true;
  }
  [[nodiscard]] std::size_t place_of(const std::string& name) const {
    const auto& names = reader_.fields();
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    detail::throw_error(Code::invalid_argument, "{}: there is no column \"{}\"; the header names {}", reader_.place(),
                        name, fmt::join(names, ", "));
  }
  void make_element() {
    const std::vector<CsvColumn>& columns = plan_->options.columns;
    present_.clear();
    if (plan_->is_vector) {
      std::size_t width = 0;
      for (const CsvColumn& column : columns) width += width_of(column);
      std::byte* target = add_tensor(*columns.front().dtype, Shape{static_cast<std::int64_t>(width)});
      for (std::size_t i = 0; i < columns.size(); ++i) target = write_values(i, target);
      return;
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].dtype) {
        write_values(i, add_tensor(*columns[i].dtype, columns[i].count ? Shape{*columns[i].count} : Shape{}));
      } else {
        present_.push_back(text(i));
      }
    }
  }
  /// Adds a tensor to the element, and returns the address of its values.
  std::byte* add_tensor(DType dtype, const Shape& shape) {
    present_.push_back(Tensor::uninitialized(dtype, shape, memory_));
    return static_cast<std::byte*>(present_.back().data());
  }
  /// The field of column k of those that columns[i] selects.
  [[nodiscard]] std::string_view field(std::size_t i, std::size_t k) const {
    const std::string_view field = reader_.fields()[places_[i] + k];
    if (!field.empty()) return field;
    const CsvColumn& column = plan_->options.columns[i];
    if (column.default_value) return *column.default_value;
    if (!column.dtype) return field;
    detail::throw_error(Code::data_loss, "{}: {} is empty, and it has no default_value", reader_.place(),
                        column_text(places_[i] + k));
  }
  /// Writes the values of all columns that columns[i] selects. Returns the address after them.
  std::byte* write_values(std::size_t i, std::byte* target) const {
    const CsvColumn& column = plan_->options.columns[i];
    for (std::size_t k = 0; k < width_of(column); ++k) {
      const std::string_view value = trimmed(field(i, k));
      if (!parse_value(value, *column.dtype, target)) fail(places_[i] + k, *column.dtype, value);
      target += size_of(*column.dtype);
    }
    return target;
  }
  [[noreturn]] void fail(std::size_t place, DType dtype, std::string_view value) const {
    constexpr std::size_t shown = 40;
    detail::throw_error(Code::data_loss, "{}: {} must be {}, found \"{}\"{}", reader_.place(), column_text(place),
                        to_string(dtype), value.substr(0, shown), value.size() > shown ? " and more" : "");
  }
  /// The column of the file by its name in the header or, if it has none, by its number.
  [[nodiscard]] std::string column_text(std::size_t place) const {
    const bool has_name = place < names_.size() && !names_[place].empty();
    return has_name ? fmt::format("column \"{}\"", names_[place])
                    : fmt::format("column {} (columns are numbered from 0)", place);
  }
  [[nodiscard]] Tensor text(std::size_t i) const {
    const std::string_view bytes = field(i, 0);
    Tensor tensor = Tensor::uninitialized(DType::u8, Shape{static_cast<std::int64_t>(bytes.size())}, memory_);
    if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
    return tensor;
  }

  std::shared_ptr<const CsvPlan> plan_;
  CsvReader reader_;
  std::vector<std::size_t> places_;  // by entry of columns: index of its first field in a record
  std::vector<std::string> names_;   // of the columns of the file; empty if there is no header
  std::size_t field_count_ = 0;
  bool has_first_ = false;  // whether the reader is already at the first record
};

void check_column(const CsvColumn& column, std::size_t i, bool has_header) {
  if (!column.name.empty() && !has_header) {
    detail::throw_error(Code::invalid_argument,
                        "csv_dataset: columns[{}] has the name \"{}\", but has_header is false, so the files have no "
                        "names of columns; set "
                        "has_header, or give an index",
                        i, column.name);
  }
  if (column.count && (*column.count < 1 || !column.dtype)) {
    detail::throw_error(Code::invalid_argument, "csv_dataset: columns[{}] has count {}{}", i, *column.count,
                        *column.count < 1 ? "; it must be at least 1"
                                          : ", but no dtype; texts of several columns do not form one tensor");
  }
  if (!column.dtype || !column.default_value) return;
  alignas(8) std::array<std::byte, 8> value{};
  if (parse_value(trimmed(*column.default_value), *column.dtype, value.data())) return;
  detail::throw_error(Code::invalid_argument, "csv_dataset: the default_value of columns[{}] must be {}, found \"{}\"",
                      i, to_string(*column.dtype), *column.default_value);
}

/// Checks the number of columns. Returns whether all columns form one vector.
bool check_leaves(const std::vector<CsvColumn>& columns, std::size_t leaves) {
  if (columns.size() == leaves) return false;
  if (leaves != 1 || columns.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "csv_dataset: columns has {}, but an element of the dataset has {}; give one entry for each "
                        "tensor (with a count, for several columns), or columns of one dtype for one tensor",
                        detail::counted(columns.size(), "entry", "entries"), detail::counted(leaves, "tensor"));
  }
  const auto dtype_of = [&columns](std::size_t i) { return columns[i].dtype ? to_string(*columns[i].dtype) : "text"; };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].dtype && columns[i].dtype == columns.front().dtype) continue;
    const std::size_t other = i == 0 ? 1 : i;
    detail::throw_error(Code::invalid_argument,
                        "csv_dataset: columns[0] is {} and columns[{}] is {}, but all columns of one tensor must have "
                        "the same numeric dtype; use one tensor for each column",
                        dtype_of(0), other, dtype_of(other));
  }
  return true;
}

}  // namespace

Pipeline csv_records(const FileList& files, const CsvOptions& options, std::size_t leaves) {
  check_options("csv_dataset", options.records);
  if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r') {
    detail::throw_error(Code::invalid_argument,
                        "csv_dataset: delimiter is the character with code {}; it must not be a quote or a line end",
                        static_cast<int>(options.delimiter));
  }
  const bool is_vector = check_leaves(options.columns, leaves);
  for (std::size_t i = 0; i < options.columns.size(); ++i) check_column(options.columns[i], i, options.has_header);
  auto plan = std::make_shared<const CsvPlan>(CsvPlan{options, is_vector});
  auto open = [plan = std::move(plan)](const std::string& path, const PassOptions& pass) {
    return std::make_unique<CsvCursor>(path, plan, pass.memory);
  };
  return Pipeline::from_node(files_node("csv_dataset", files, std::move(open), options.records.interleave));
}

}  // namespace lockstep::input
