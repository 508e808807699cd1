// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams of bytes: a file, plain or gzip, or bytes in memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

namespace lockstep::input {

/// A stream of bytes, read once from the start.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream();

  /// Reads the next bytes to `bytes`, and returns their number, which is less than `bytes.size()` only at the end. At
  /// the end, checks that the stream is complete. Throws Error(data_loss) if the data is damaged.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> bytes) = 0;
  /// Number of bytes read so far, after decompression.
  [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
  /// Upper bound of the stream's length after decompression; does not rely on the header of the array in the stream.
  [[nodiscard]] virtual std::uint64_t largest_content() const noexcept = 0;
  /// The name of the stream, for errors.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
};

/// A stream of bytes in memory.
class SpanReader final : public ByteStream {
 public:
  SpanReader(std::span<const std::byte> bytes, std::string name) noexcept : bytes_(bytes), name_(std::move(name)) {}
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes) override;
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] std::uint64_t largest_content() const noexcept override { return bytes_.size(); }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::string name_;
};

/// The highest compression ratio of deflate (1032), rounded up.
inline constexpr std::uint64_t best_deflate_ratio = 1100;

/// A stream of a regular file. A file that begins with the magic bytes of gzip is decompressed. Errors name the file.
class ByteReader final : public ByteStream {
 public:
  /// Throws Error(invalid_argument) if the file cannot be opened.
  explicit ByteReader(const std::string& path);
  ~ByteReader() override;

  /// Also throws Error(data_loss) if gzip data is truncated, corrupt, or followed by other bytes.
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes) override;
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] bool is_gzip() const noexcept { return gzip_; }
  /// The size of the file; for gzip, multiplied by best_deflate_ratio.
  [[nodiscard]] std::uint64_t largest_content() const noexcept override;
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// Length of the content modulo 2^32, from gzip's trailer. Wrong if the file consists of several gzip members.
  [[nodiscard]] std::uint32_t trailer_length() const noexcept { return trailer_length_; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void detect_gzip();
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
