// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Generated files of every format, together with the data that reading them must return.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace perf {

inline constexpr std::int64_t record_bytes = 784;  ///< bytes of an image of Fashion-MNIST
inline constexpr std::size_t csv_columns = 16;

/// FNV-1a over 64-bit words. The result depends on the bytes and their order, not on how they are divided into calls.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  friend bool operator==(const Hash& a, const Hash& b) noexcept {
    return a.state_ == b.state_ && a.open_ == b.open_ && a.open_bytes_ == b.open_bytes_;
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
  std::uint64_t open_ = 0;  // bytes of the incomplete last word
  unsigned open_bytes_ = 0;
};

struct InputFile {
  std::filesystem::path path;
  std::int64_t rows = 0;
  std::int64_t decoded_bytes = 0;
  std::uint64_t byte_sum = 0;
  Hash hash;  ///< hash of the expected data, in the order of the file
};

/// A new temporary folder, removed by the destructor. Each call writes a file.
class InputFolder {
 public:
  InputFolder();
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  ~InputFolder();

  [[nodiscard]] InputFile images() const;  ///< IDX, 60000 images of the size of Fashion-MNIST's
  [[nodiscard]] InputFile npy() const;     ///< f32
  [[nodiscard]] InputFile big_endian_npy() const;
  [[nodiscard]] InputFile raw_records() const;
  [[nodiscard]] InputFile tfrecords() const;
  [[nodiscard]] InputFile packed_tfrecords() const;  ///< gzip
  [[nodiscard]] InputFile text() const;
  [[nodiscard]] InputFile csv() const;

 private:
  std::filesystem::path path_;
};

}  // namespace perf
