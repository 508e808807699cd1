// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Zip archives as NumPy writes them: members stored or deflated, with sizes of 64 bits where needed.

#pragma once

#include "input/byte_reader.hpp"
#include "input/mapped_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

struct ZipMember {
  std::string name;
  bool is_deflated = false;
  std::uint64_t size = 0;             ///< unpacked
  std::uint32_t checksum = 0;         ///< CRC-32 of the unpacked bytes
  std::span<const std::byte> packed;  ///< in the mapped file
};

class ZipArchive {
 public:
  /// Reads the directory. Throws Error(invalid_argument) when the file cannot be read, is no zip archive, or has
  /// members that are encrypted or packed by another method; Error(data_loss) when offsets or sizes do not fit the
  /// file.
  explicit ZipArchive(const std::filesystem::path& path);

  [[nodiscard]] const std::vector<ZipMember>& members() const noexcept { return members_; }
  /// The unpacked bytes; at the end size and checksum are compared (Error(data_loss)).
  [[nodiscard]] std::unique_ptr<ByteStream> open(const ZipMember& member) const;
  /// Compares the checksum of a stored member.
  void check(const ZipMember& member) const;
  /// Holds the bytes.
  [[nodiscard]] const std::shared_ptr<const MappedFile>& file() const noexcept { return file_; }
  /// "archive.npz:member", for errors.
  [[nodiscard]] std::string name_of(const ZipMember& member) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::vector<ZipMember> members_;
};

}  // namespace lockstep::input
