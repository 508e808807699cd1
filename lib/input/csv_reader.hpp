// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a CSV file as records of text fields.

#pragma once

#include "input/mapped_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::input {

class CsvReader {
 public:
  /// Opens the file, and skips a byte order mark.
  CsvReader(const std::string& path, char delimiter, std::size_t max_record_bytes);

  /// Moves to the next record that is not an empty line; returns false at the end. Throws Error(data_loss) for
  /// misplaced quotes and records that are too long.
  [[nodiscard]] bool advance();
  /// Fields of the current record; valid until the next call of `advance`.
  [[nodiscard]] const std::vector<std::string_view>& fields() const noexcept { return fields_; }
  /// Text "file:line"; `line` is the number of the current record's first line, counted from 1.
  [[nodiscard]] std::string place() const;

 private:
  /// The reason why a scan stopped: the end of a field, of a record, or of the window.
  enum class End { field, record, view };
  struct Scan {
    std::size_t at = 0;  ///< position after the scanned bytes
    End end = End::field;
  };
  /// A field without its enclosing quotes.
  struct Span {
    std::size_t begin = 0;
    std::size_t length = 0;
    bool has_doubled = false;  ///< has doubled quotes, each of which stands for one quote
  };

  [[nodiscard]] bool scan_record(bool is_last);
  [[nodiscard]] Scan scan_field(std::string_view text, std::size_t at, bool is_last);
  [[nodiscard]] Scan scan_quoted(std::string_view text, std::size_t at, bool is_last);
  [[nodiscard]] Scan end_of_field(std::string_view text, std::size_t at, bool is_last);
  void make_fields(std::string_view text);
  [[noreturn]] void fail(std::string_view rule, std::size_t at) const;

  FileWindow window_;
  char delimiter_;
  std::size_t max_record_bytes_;
  std::uint64_t line_ = 1;   // line of the current record
  std::uint64_t lines_ = 0;  // number of lines of the current record
  std::size_t passed_ = 0;   // bytes of the current record, with its line end
  std::vector<Span> spans_;  // fields of the current record
  std::vector<std::string_view> fields_;
  std::vector<std::string> unescaped_;  // fields that had doubled quotes
};

}  // namespace lockstep::input
