// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of CSV files (RFC 4180): fields are separated by commas; a field that contains commas, quotes or line ends
// is enclosed in double quotes, and each quote inside the field is doubled.

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

/// A column of a CSV file, or several consecutive columns, and the conversion of their fields to tensors.
struct CsvColumn {
  /// Element type of the tensor. A field is a number or, for bool, one of true, false, 1 and 0. nullopt: the tensor has
  /// the text of the field, as u8 of shape [length].
  std::optional<DType> dtype = DType::f32;
  /// Value that replaces an empty field, written as in a file. nullopt: an empty field is an error if `dtype` is set,
  /// and an empty text otherwise.
  std::optional<std::string> default_value = std::nullopt;
  /// Name of the column in the header. If the name is empty, `index` selects the column.
  std::string name = {};
  /// Index of the column in the file, from 0. A negative index selects the column after the column of the preceding
  /// CsvColumn (the last one, if they are several) or, in the first CsvColumn, column 0.
  int index = -1;
  /// Number of consecutive columns, from the selected one on, that become one tensor of shape [count]. nullopt: one
  /// column, which becomes a scalar. Requires `dtype`; all columns have this dtype and this default_value.
  std::optional<int> count = std::nullopt;
};

struct CsvOptions {
  /// The columns that form an element, in this order. Files may have further columns.
  std::vector<CsvColumn> columns = {};
  /// Whether the first record of each file is a header with the names of the columns.
  bool has_header = false;
  char delimiter = ',';
  RecordOptions records = {};
};

namespace input {
[[nodiscard]] LOCKSTEP_API Pipeline csv_records(const FileList& files, const CsvOptions& options, std::size_t leaves);
}  // namespace input

/// The records of CSV files, plain or gzip (detected by content). Entry i of `columns` becomes tensor i of T: a scalar,
/// a vector of `count` columns, or the text of a field. A label and eight features: `csv_dataset<std::tuple<Tensor,
/// Tensor>>(files, {.columns = {{.name = "y"}, {.name = "x0", .count = 8}}, .has_header = true})`. If T is Tensor and
/// there are several entries of one dtype, they become one vector. Lines may end in "\\n" or "\\r\\n". Empty lines, and
/// spaces around numbers, are ignored. Local. A file is opened when reading reaches it. Plain files are mapped: do not
/// shorten a file during reading (SIGBUS). Throws Error(invalid_argument) if the list of files or of columns is empty,
/// if the number of columns does not match T, if the columns of a vector differ in dtype, if a count is below 1 or has
/// no dtype, if a column has a name but has_header is false, or if a default_value is not a value of its column's
/// dtype. Reading throws Error(invalid_argument) if a file cannot be opened or lacks a requested column. Reading throws
/// Error(data_loss) for damaged gzip data, for a misplaced or unclosed quote, for a record longer than
/// max_record_bytes, for a record whose number of fields differs from the first record of the file, for a field that is
/// not a value of its dtype, and for an empty field whose column has a dtype but no default_value. The error text gives
/// file and line, and the column of a wrong field: its name in the header or, without a header, its index.
template <ElementTree T>
  requires(input::leaf_count<T>::value != input::by_keys)
[[nodiscard]] Dataset<T> csv_dataset(const FileList& files, const CsvOptions& options) {
  return Dataset<T>(input::csv_records(files, options, input::leaf_count<T>::value));
}

}  // namespace lockstep
