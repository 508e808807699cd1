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
#include <utility>
#include <vector>

#include <zlib.h>

namespace lockstep::input {

/// Bytes that are read once, from the start.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream();

  /// Fills `bytes`; how many: fewer only at the end, where the stream is checked to be whole.
  /// Throws Error(data_loss) for what is damaged.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> bytes) = 0;
  /// Bytes read so far, after unpacking.
  [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
  /// The most bytes that it can give, whatever it says itself.
  [[nodiscard]] virtual std::uint64_t largest_content() const noexcept = 0;
  /// For errors.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
};

/// Bytes in memory.
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

/// The best ratio that deflate reaches (1032), rounded up.
inline constexpr std::uint64_t best_deflate_ratio = 1100;

/// Reads a regular file from its start; whether it is gzip is told by its first two bytes. Errors name the file.
class ByteReader final : public ByteStream {
 public:
  /// Throws Error(invalid_argument) when the file cannot be opened.
  explicit ByteReader(const std::filesystem::path& path);
  ~ByteReader() override;

  /// For gzip it is checked that nothing is missing, corrupt, or follows.
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes) override;
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] bool is_gzip() const noexcept { return gzip_; }
  /// The file's size, or that times the best ratio.
  [[nodiscard]] std::uint64_t largest_content() const noexcept override;
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// What gzip's trailer says about the content's length, modulo 2^32; right unless the file is several gzip files in
  /// one.
  [[nodiscard]] std::uint32_t trailer_length() const noexcept { return trailer_length_; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

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
