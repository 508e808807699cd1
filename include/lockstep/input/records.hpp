// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of files of records: TFRecord files, lines of text, records of a fixed length. An element is the bytes of a
// record, as a u8 tensor; use `map` to decode it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/input/dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Files in the order in which they are read. A dataset opens each file only when it reaches it, unless its reader says
/// otherwise, so a rank that reads some of the files does not need access to the others.
using FileList = std::vector<std::string>;

struct RecordOptions {
  /// How files are interleaved. Default: one after the other.
  InterleaveOptions interleave = {};
  /// Longest record, in bytes. A longer one is an error, so that a damaged file cannot exhaust memory.
  std::size_t max_record_bytes = std::size_t{1} << 30U;
};

enum class Compression : std::uint8_t { none, gzip };

struct FixedLengthRecordOptions {
  std::int64_t header_bytes = 0;  ///< bytes to skip at the start of each file
  std::int64_t footer_bytes = 0;  ///< bytes to skip at the end of each file
  /// Must be given, because it cannot be detected from the content.
  Compression compression = Compression::none;
};

namespace input {

[[nodiscard]] LOCKSTEP_API Pipeline tfrecords(const FileList& files, const RecordOptions& options);
[[nodiscard]] LOCKSTEP_API Pipeline text_lines(const FileList& files, const RecordOptions& options);
[[nodiscard]] LOCKSTEP_API Pipeline fixed_length_records(const FileList& files, std::int64_t record_bytes,
                                                         const FixedLengthRecordOptions& options);

}  // namespace input

/// The records of TFRecord files, plain or gzip (detected by content), as u8 tensors of shape [length]. Local. A file
/// is opened when it is reached. Plain files are mapped: do not shorten them during reading (SIGBUS).
/// Throws Error(invalid_argument) for an empty list and for options below 1.
/// Reading throws Error(invalid_argument) for a file that cannot be opened, and Error(data_loss), with file and offset,
/// for a length or a record with a wrong checksum, a truncated record, and damaged gzip data.
/// Memory: the record; for gzip also a buffer as large as the longest record so far.
[[nodiscard]] inline Dataset<Tensor> tfrecord_dataset(const FileList& files, const RecordOptions& options = {}) {
  return Dataset<Tensor>(input::tfrecords(files, options));
}

/// The lines of text files, plain or gzip (detected by content), without their line ends ("\\n" or "\\r\\n"), as u8
/// tensors of shape [length]. The last line need not have a line end. Local. Otherwise as tfrecord_dataset.
[[nodiscard]] inline Dataset<Tensor> text_line_dataset(const FileList& files, const RecordOptions& options = {}) {
  return Dataset<Tensor>(input::text_lines(files, options));
}

/// The records of `record_bytes` bytes between header and footer of each file, file after file, as u8 tensors of shape
/// [record_bytes]. Local. Plain files are mapped at once and have random access: only the records that are read are
/// accessed. Records of gzip files are read in order.
/// Throws Error(invalid_argument) for an empty list, a record length below 1, a header or footer below 0, and a file
/// that cannot be opened; Error(data_loss) if the length of a file is not a whole number of records, for gzip when
/// reading.
[[nodiscard]] inline Dataset<Tensor> fixed_length_record_dataset(const FileList& files, std::int64_t record_bytes,
                                                                 const FixedLengthRecordOptions& options = {}) {
  return Dataset<Tensor>(input::fixed_length_records(files, record_bytes, options));
}

}  // namespace lockstep
