// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A CSV file as records of text fields.

#pragma once

#include "input/file_window.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::input {

class CsvReader {
 public:
  /// A byte order mark is passed over.
  CsvReader(const std::filesystem::path& path, char delimiter, std::size_t max_record_bytes);

  /// Moves to the next record that is not an empty line; false at the end. Throws Error(data_loss) for quotes that are
  /// wrong and records that are too long.
  [[nodiscard]] bool advance();
  /// Good until the next advance.
  [[nodiscard]] const std::vector<std::string_view>& fields() const noexcept { return fields_; }
  /// "file:line", of the present record's first line, counted from 1.
  [[nodiscard]] std::string place() const;

 private:
  /// The end of a field, or of what is seen.
  enum class End { field, record, view };
  struct Scan {
    std::size_t at = 0;  ///< behind what has been read
    End end = End::field;
  };
  /// A field without its quotes and, where there are doubled quotes, to be shortened.
  struct Span {
    std::size_t begin = 0;
    std::size_t length = 0;
    bool has_doubled = false;
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
  std::uint64_t line_ = 1;   // of the present record
  std::uint64_t lines_ = 0;  // that it has
  std::size_t passed_ = 0;   // bytes of it, with its end
  std::vector<Span> spans_;  // of it
  std::vector<std::string_view> fields_;
  std::vector<std::string> unescaped_;  // those with doubled quotes
};

}  // namespace lockstep::input
