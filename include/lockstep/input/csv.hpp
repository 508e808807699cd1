// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of CSV files (RFC 4180): fields are separated by commas; a field that contains commas, quotes or line ends
// is enclosed in double quotes, and quotes inside of it are doubled.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A column of the file, and its conversion to a tensor.
struct CsvColumn {
  /// Element type of the value: a number, or true, false, 1, 0 for bool. Nothing: the text of the field, as a u8 tensor
  /// of shape [length].
  std::optional<DType> dtype = DType::f32;
  /// Value of an empty field, written as in a file. Nothing: an empty field is an error.
  std::optional<std::string> default_value = std::nullopt;
  /// Name of the column in the header. Empty: the column is given by `index`.
  std::string name = {};
  /// Number of the column, from 0. Negative: the column after that of the preceding CsvColumn.
  int index = -1;
};

struct CsvOptions {
  /// The columns of an element, in this order; files may have more.
  std::vector<CsvColumn> columns;
  /// Whether the first record of each file has the names of the columns.
  bool has_header = false;
  char delimiter = ',';
  RecordOptions records = {};
};

namespace input {
[[nodiscard]] LOCKSTEP_API Pipeline csv_records(const FileList& files, const CsvOptions& options, std::size_t leaves);
}  // namespace input

/// The records of CSV files, plain or gzip (detected by content). Each column becomes a scalar, one for each tensor of
/// T; or, if T is Tensor and there are several columns of one dtype, the columns become one vector. Lines may end in
/// "\\n" or "\\r\\n". Empty lines, and spaces around numbers, are ignored. Local. A file is opened when it is reached.
/// Plain files are mapped: do not shorten them during reading (SIGBUS).
/// Throws Error(invalid_argument) for an empty list of files or columns, if the number of columns does not match T, for
/// a vector of columns of different dtypes, a name without has_header, and a default_value that is not a value of its
/// dtype.
/// Reading throws Error(invalid_argument) for a file that cannot be opened or does not have a column, and
/// Error(data_loss), with file, line and column, for a record with another number of fields than the first one, a field
/// that is not a value of its dtype, an empty field without default_value, a misplaced or unclosed quote, a record
/// longer than max_record_bytes, and damaged gzip data.
template <ElementTree T>
[[nodiscard]] Dataset<T> csv_dataset(const FileList& files, const CsvOptions& options) {
  return Dataset<T>(input::csv_records(files, options, input::leaf_count<T>::value));
}

}  // namespace lockstep
