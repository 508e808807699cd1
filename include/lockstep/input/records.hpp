// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of files that consist of records: TFRecord files, lines of text, records of a fixed length. An element is a
// u8 tensor with the bytes of one record; use `map` to decode the bytes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/input/dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Paths of files, in the order in which the files are read. Unless documented otherwise, a dataset opens a file only
/// when reading reaches the file, so a rank that reads only some of the files does not need access to the rest.
using FileList = std::vector<std::string>;

struct RecordOptions {
  /// How files are interleaved. Default: one after the other.
  InterleaveOptions interleave = {};
  /// Maximum size of a record, in bytes. A longer record is an error, so that a damaged file cannot exhaust memory.
  std::size_t max_record_bytes = std::size_t{1} << 30U;
};

enum class Compression : std::uint8_t { none, gzip };

struct FixedLengthRecordOptions {
  std::int64_t header_bytes = 0;  ///< bytes to skip at the start of each file
  std::int64_t footer_bytes = 0;  ///< bytes to skip at the end of each file
  /// Compression of the files. It cannot be detected, because a plain file may begin with any bytes.
  Compression compression = Compression::none;
};

namespace input {

[[nodiscard]] LOCKSTEP_API Pipeline tfrecords(const FileList& files, const RecordOptions& options);
[[nodiscard]] LOCKSTEP_API Pipeline text_lines(const FileList& files, const RecordOptions& options);
[[nodiscard]] LOCKSTEP_API Pipeline fixed_length_records(const FileList& files, std::int64_t record_bytes,
                                                         const FixedLengthRecordOptions& options);

}  // namespace input

/// The records of TFRecord files, plain or gzip (detected by content), as u8 tensors of shape [length]. Local. A file
/// is opened when reading reaches it. Plain files are mapped: do not shorten a file during reading (SIGBUS).
/// Throws Error(invalid_argument) if `files` is empty or an option is below 1.
/// Reading throws Error(invalid_argument) for a file that cannot be opened, and Error(data_loss), with file and offset,
/// for a length or a record with a wrong checksum, a truncated record, and damaged gzip data.
/// Memory: one record; for gzip, also a buffer as large as the longest record so far.
[[nodiscard]] inline Dataset<Tensor> tfrecord_dataset(const FileList& files, const RecordOptions& options = {}) {
  return Dataset<Tensor>(input::tfrecords(files, options));
}

/// The lines of text files, plain or gzip (detected by content), without their line ends ("\\n" or "\\r\\n"), as u8
/// tensors of shape [length]. The last line need not have a line end. Local. Opening of files, errors and memory are as
/// for tfrecord_dataset.
[[nodiscard]] inline Dataset<Tensor> text_line_dataset(const FileList& files, const RecordOptions& options = {}) {
  return Dataset<Tensor>(input::text_lines(files, options));
}

/// The records between header and footer of each file, file after file. Each record is a u8 tensor of shape
/// [record_bytes]. Local. This call maps all plain files; their records have random access, and only the records that
/// are read are accessed. Gzip files are opened and read in order during reading.
/// Throws Error(invalid_argument) if `files` is empty, if `record_bytes` is below 1, if a header or footer length is
/// below 0, or if a file cannot be opened. Throws Error(data_loss) if the bytes between header and footer are not a
/// whole number of records. For gzip files, reading throws the errors about files.
[[nodiscard]] inline Dataset<Tensor> fixed_length_record_dataset(const FileList& files, std::int64_t record_bytes,
                                                                 const FixedLengthRecordOptions& options = {}) {
  return Dataset<Tensor>(input::fixed_length_records(files, record_bytes, options));
}

}  // namespace lockstep
