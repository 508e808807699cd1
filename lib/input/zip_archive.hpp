// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Zip archives as NumPy writes them: members are stored or deflated; sizes may have 64 bits.

#pragma once

#include "input/byte_reader.hpp"
#include "input/mapped_file.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

struct ZipMember {
  std::string name;
  bool is_deflated = false;
  std::uint64_t size = 0;             ///< decompressed size
  std::uint32_t checksum = 0;         ///< CRC-32 of the decompressed bytes
  std::span<const std::byte> packed;  ///< compressed or stored bytes, in the mapped file
};

class ZipArchive {
 public:
  /// Reads the directory. Throws Error(invalid_argument) if the file cannot be read, is not a zip archive, or has
  /// members that are encrypted or compressed by another method; Error(data_loss) if offsets or sizes exceed the file.
  explicit ZipArchive(const std::string& path);

  [[nodiscard]] const std::vector<ZipMember>& members() const noexcept { return members_; }
  /// A stream of the decompressed bytes. At the end, the stream throws Error(data_loss) if its size or checksum is
  /// wrong.
  [[nodiscard]] std::unique_ptr<ByteStream> open(const ZipMember& member) const;
  /// Throws Error(data_loss) if the checksum of `member` is wrong. `member` must be stored, not deflated.
  void check(const ZipMember& member) const;
  /// The file, which owns the members' bytes.
  [[nodiscard]] const std::shared_ptr<const MappedFile>& file() const noexcept { return file_; }
  /// "archive.npz:member", for errors.
  [[nodiscard]] std::string name_of(const ZipMember& member) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::vector<ZipMember> members_;
};

}  // namespace lockstep::input
