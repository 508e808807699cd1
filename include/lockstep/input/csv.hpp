// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CSV files (RFC 4180): records of fields between commas, fields with commas, quotes or line ends in double quotes,
// quotes in those doubled.

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

/// A column that becomes a tensor.
struct CsvColumn {
  /// Of the field's value: a number, or true, false, 1, 0 for bool. Nothing: the field's text, a u8 tensor of shape
  /// [length].
  std::optional<DType> dtype = DType::f32;
  /// What an empty field stands for, written as in the file; nothing: an empty field is an error.
  std::optional<std::string> default_value = std::nullopt;
  /// Which column, by its name in the header; empty: by number.
  std::string name = {};
  /// Which column, from 0; below 0: the one after that of the CsvColumn before.
  int index = -1;
};

struct CsvOptions {
  /// The columns of an element, in this order; files may have more.
  std::vector<CsvColumn> columns;
  /// Whether the first record of each file names its columns.
  bool has_header = false;
  char delimiter = ',';
  RecordOptions records = {};
};

namespace input {
[[nodiscard]] LOCKSTEP_API Pipeline csv_records(const FileList& files, const CsvOptions& options, std::size_t leaves);
}  // namespace input

/// The records of CSV files, plain or gzip (told apart by content): for each column a scalar, one for each tensor of T;
/// where T is a Tensor and there are several columns of one dtype, a vector of them. Lines may end in "\\n" or
/// "\\r\\n"; empty lines are passed over, spaces around numbers too. Local. Files are opened when their turn comes;
/// plain ones are mapped: do not shorten them meanwhile (SIGBUS). Throws Error(invalid_argument) for an empty list, no
/// column, another number of columns than T has tensors, columns of different dtypes for one vector, a name without
/// has_header, and a default_value that is no value of its dtype. Reading throws Error(invalid_argument) for a file
/// that cannot be opened or does not have a column, and Error(data_loss), with file, line and column, for a record with
/// another number of fields than the first one, a field that is no value of its dtype, an empty field without
/// default_value, a quote in the wrong place or not closed, a record longer than max_record_bytes, and damaged gzip
/// data.
template <ElementTree T>
[[nodiscard]] Dataset<T> csv_dataset(const FileList& files, const CsvOptions& options) {
  return Dataset<T>(input::csv_records(files, options, input::leaf_count<T>::value));
}

}  // namespace lockstep
