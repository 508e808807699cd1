// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/csv_reader.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::input {

namespace {
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // some programs write it at the start of UTF-8 files
}  // namespace

CsvReader::CsvReader(const std::string& path, char delimiter, std::size_t max_record_bytes)
    : window_(path), delimiter_(delimiter), max_record_bytes_(max_record_bytes) {
  const std::size_t bytes = byte_order_mark.size();
  if (window_.ensure(bytes) && std::memcmp(window_.view().data(), byte_order_mark.data(), bytes) == 0)
    window_.skip(bytes);
}

bool CsvReader::advance() {
  for (;;) {
    window_.skip(passed_);
    line_ += lines_;
    passed_ = lines_ = 0;
    if (!window_.ensure(1)) return false;
    // extend the window until it contains the end of the record, or the end of the file
    for (std::size_t seen = window_.view().size(); !scan_record(false); seen = window_.view().size()) {
      if (window_.ensure(2 * seen) || window_.view().size() != seen) continue;
      static_cast<void>(scan_record(true));
      break;
    }
    if (spans_.size() > 1 || spans_.front().length != 0 || spans_.front().begin != 0) {
      const std::span<const std::byte> view = window_.view();
      make_fields({reinterpret_cast<const char*>(view.data()), view.size()});
      return true;
    }
  }
}

/// Returns whether the window contains the end of the record. If `is_last`, the window reaches the end of the file.
bool CsvReader::scan_record(bool is_last) {
  const std::span<const std::byte> view = window_.view();
  const std::string_view text(reinterpret_cast<const char*>(view.data()), std::min(view.size(), max_record_bytes_ + 1));
  const bool is_cut = text.size() < view.size();
  spans_.clear();
  lines_ = 0;
  Scan scan;
  do {
    scan = scan_field(text, scan.at, is_last && !is_cut);
  } while (scan.end == End::field);
  if (scan.end == End::view && (is_cut || text.size() > max_record_bytes_)) {
    fail(fmt::format("the record has more than {} (max_record_bytes); possibly a quote is not closed",
                     detail::counted(max_record_bytes_, "byte")),
         0);
  }
  passed_ = scan.at;
  return scan.end == End::record;
}

CsvReader::Scan CsvReader::scan_field(std::string_view text, std::size_t at, bool is_last) {
  if (at < text.size() && text[at] == '"') return scan_quoted(text, at + 1, is_last);
  std::size_t end = at;
  while (end < text.size() && text[end] != delimiter_ && text[end] != '\n') {
    if (text[end] == '"')
      fail("quote inside an unquoted field; the field must be quoted, and quotes inside of it doubled", end);
    ++end;
  }
  const bool has_return = end > at && text[end - 1] == '\r' && (end == text.size() || text[end] == '\n');
  spans_.push_back({at, end - at - (has_return ? 1 : 0), false});
  return end_of_field(text, end, is_last);
}

CsvReader::Scan CsvReader::scan_quoted(std::string_view text, std::size_t at, bool is_last) {
  Span span{.begin = at};
  for (std::size_t end = at; end < text.size(); ++end) {
    if (text[end] == '\n') ++lines_;
    if (text[end] != '"') continue;
    if (end + 1 < text.size() && text[end + 1] == '"') {
      span.has_doubled = true;
      ++end;
      continue;
    }
    if (end + 1 == text.size() && !is_last)
      return {end, End::view};  // the next byte decides whether this quote is doubled
    span.length = end - at;
    spans_.push_back(span);
    std::size_t after = end + 1;
    if (after < text.size() && text[after] == '\r') ++after;
    if (after < text.size() && text[after] != '\n' && (text[after] != delimiter_ || after != end + 1)) {
      fail("text after a closing quote; quotes inside of a quoted field must be doubled", after);
    }
    return end_of_field(text, after, is_last);
  }
  if (is_last) fail("unclosed quote at the end of the file", at - 1);
  return {text.size(), End::view};
}

/// Continues a scan after a field; `at` is the position of a delimiter, of a line end, or of the end of `text`.
CsvReader::Scan CsvReader::end_of_field(std::string_view text, std::size_t at, bool is_last) {
  if (at == text.size()) {
    ++lines_;
    return {at, is_last ? End::record : End::view};
  }
  if (text[at] == delimiter_) return {at + 1, End::field};
  ++lines_;
  return {at + 1, End::record};
}

void CsvReader::make_fields(std::string_view text) {
  fields_.clear();
  unescaped_.clear();
  unescaped_.reserve(spans_.size());  // prevents reallocation, so views of the strings stay valid
  for (const Span& span : spans_) {
    std::string_view field = text.substr(span.begin, span.length);
    if (span.has_doubled) {
      std::string& shorter = unescaped_.emplace_back();
      for (std::size_t i = 0; i < field.size(); ++i) {
        shorter += field[i];
        if (field[i] == '"') ++i;
      }
      field = shorter;
    }
    fields_.push_back(field);
  }
}

std::string CsvReader::place() const { return fmt::format("{}:{}", window_.name(), line_); }

void CsvReader::fail(std::string_view rule, std::size_t at) const {
  detail::throw_error(Code::data_loss, "{}: invalid CSV at byte {}, in the record that begins at byte {}: {}", place(),
                      window_.position() + at, window_.position(), rule);
}

}  // namespace lockstep::input
