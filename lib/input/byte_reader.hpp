// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a file, plain or unpacked from gzip.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <zlib.h>

namespace lockstep::input {

/// Reads a regular file from its start; whether it is gzip is told by its first two bytes. Errors name the file.
class ByteReader {
 public:
  /// Throws Error(invalid_argument) when the file cannot be opened.
  explicit ByteReader(const std::filesystem::path& path);
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;
  ~ByteReader();

  /// Fills `bytes`; how many: fewer only at the end, which for gzip is checked to be whole and clean.
  /// Throws Error(data_loss) for gzip data that is truncated, corrupt, or followed by something else.
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes);

  /// Bytes read so far, after unpacking.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] bool is_gzip() const noexcept { return gzip_; }
  /// The most bytes that this file can give: its size, or that times the best ratio that gzip reaches (1032, rounded
  /// up).
  [[nodiscard]] std::uint64_t largest_content() const noexcept;
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// What gzip's trailer says about the content's length, modulo 2^32; right unless the file is several gzip files in
  /// one.
  [[nodiscard]] std::uint32_t trailer_length() const noexcept { return trailer_length_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void look();
  bool fill();
  [[nodiscard]] std::size_t unpack(std::span<std::byte> bytes);
  void finish_member();

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t position_ = 0;
  std::uint32_t trailer_length_ = 0;
  bool gzip_ = false;
  bool ended_ = false;
  std::vector<unsigned char> packed_;
  z_stream stream_{};
};

}  // namespace lockstep::input
