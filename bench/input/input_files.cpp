// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/input/input_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>
#include <zlib.h>

namespace perf {
namespace {

constexpr std::int64_t image_count = 60'000;
constexpr std::int64_t float_rows = 15'000;
constexpr std::int64_t line_count = 400'000;
constexpr std::int64_t csv_rows = 150'000;

/// SplitMix64: pseudo-random bytes that do not repeat.
class Noise {
 public:
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27U) * 0x94d049bb133111ebU;
    return z ^ z >> 31U;
  }

 private:
  std::uint64_t state_ = 1;
};

std::span<const std::byte> bytes_of(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }

/// Writes a file and records the data that reading it must return.
class Writer {
 public:
  Writer(const std::filesystem::path& path, std::int64_t rows) : stream_(path, std::ios::binary) {
    file_.path = path;
    file_.rows = rows;
  }
  void write(std::string_view text) { stream_.write(text.data(), static_cast<std::streamsize>(text.size())); }
  /// Adds data that reading the file must return, in whatever form it is written.
  void expect(std::string_view content) {
    file_.hash.add(bytes_of(content));
    file_.decoded_bytes += static_cast<std::int64_t>(content.size());
    for (const char c : content) file_.byte_sum += static_cast<unsigned char>(c);
  }
  void write_expected(std::string_view content) {
    write(content);
    expect(content);
  }
  InputFile finish() {
    stream_.close();
    if (!stream_) throw std::runtime_error("cannot write " + file_.path.string());
    return file_;
  }

 private:
  std::ofstream stream_;
  InputFile file_;
};

std::string noise_record(Noise& noise) {
  std::string record;
  while (record.size() < static_cast<std::size_t>(record_bytes)) {
    const std::uint64_t word = noise.next();
    record.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return record;
}

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24U), static_cast<char>(value >> 16U), static_cast<char>(value >> 8U),
          static_cast<char>(value)};
}

/// The checksum of TFRecord files, from its definition, a byte at a time.
std::uint32_t masked_crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> result{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      result[i] = i;
      for (int bit = 0; bit < 8; ++bit) result[i] = result[i] >> 1U ^ ((result[i] & 1U) != 0 ? 0x82f63b78U : 0U);
    }
    return result;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = crc >> 8U ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xffU];
  crc = ~crc;
  return (crc >> 15U | crc << 17U) + 0xa282ead8U;
}

std::string tfrecord(std::string_view record) {
  const auto text = []<class T>(T value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const std::string length = text(static_cast<std::uint64_t>(record.size()));
  return length + text(masked_crc32c(length)) + std::string(record) + text(masked_crc32c(record));
}

InputFile write_npy(const std::filesystem::path& path, bool is_big_endian) {
  Writer file(path, float_rows);
  std::string header = fmt::format("{{'descr': '{}f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   is_big_endian ? '>' : '<', float_rows, record_bytes);
  header.append(117 - header.size(), ' ');
  file.write(std::string_view("\x93NUMPY\x01\x00\x76\x00", 10));
  file.write(header + "\n");
  std::vector<float> row(static_cast<std::size_t>(record_bytes));
  for (std::int64_t i = 0; i < float_rows; ++i) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<float>(i) + static_cast<float>(j) / 1024;
    const std::string_view bytes(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    file.expect(bytes);
    if (!is_big_endian) {
      file.write(bytes);
      continue;
    }
    for (const float value : row) file.write(big_endian(std::bit_cast<std::uint32_t>(value)));
  }
  return file.finish();
}

}  // namespace

void Hash::add(std::span<const std::byte> bytes) noexcept {
  for (const std::byte byte : bytes) {
    open_ |= std::to_integer<std::uint64_t>(byte) << (8 * open_bytes_);
    if (++open_bytes_ < 8) continue;
    state_ = (state_ ^ open_) * 0x100000001b3U;
    open_ = 0;
    open_bytes_ = 0;
  }
}

InputFolder::InputFolder()
    : path_(std::filesystem::temp_directory_path() / fmt::format("lockstep-perf-{}", ::getpid())) {
  std::filesystem::create_directories(path_);
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

InputFile InputFolder::images() const {
  Writer file(path_ / "images", image_count);
  file.write(big_endian(0x0803) + big_endian(image_count) + big_endian(28) + big_endian(28));
  Noise noise;
  for (std::int64_t i = 0; i < image_count; ++i) file.write_expected(noise_record(noise));
  return file.finish();
}

InputFile InputFolder::npy() const { return write_npy(path_ / "rows.npy", false); }
InputFile InputFolder::big_endian_npy() const { return write_npy(path_ / "big.npy", true); }

InputFile InputFolder::raw_records() const {
  Writer file(path_ / "records", image_count);
  Noise noise;
  for (std::int64_t i = 0; i < image_count; ++i) file.write_expected(noise_record(noise));
  return file.finish();
}

InputFile InputFolder::tfrecords() const {
  Writer file(path_ / "records.tfrecord", image_count);
  Noise noise;
  for (std::int64_t i = 0; i < image_count; ++i) {
    const std::string record = noise_record(noise);
    file.expect(record);
    file.write(tfrecord(record));
  }
  return file.finish();
}

InputFile InputFolder::packed_tfrecords() const {
  InputFile file = tfrecords();
  std::ifstream plain(file.path, std::ios::binary);
  file.path += ".gz";
  const gzFile packed = gzopen(file.path.c_str(), "wb1");
  if (packed == nullptr) throw std::runtime_error("cannot write " + file.path.string());
  std::array<char, 1 << 16> buffer{};
  while (plain.read(buffer.data(), buffer.size()), plain.gcount() > 0) {
    gzwrite(packed, buffer.data(), static_cast<unsigned>(plain.gcount()));
  }
  if (gzclose(packed) != Z_OK) throw std::runtime_error("cannot write " + file.path.string());
  return file;
}

InputFile InputFolder::text() const {
  Writer file(path_ / "text", line_count);
  for (std::int64_t i = 0; i < line_count; ++i) {
    const std::string line =
        fmt::format("{} is the number of a line, of which there are {}, all about as long", i, line_count);
    file.expect(line);
    file.write(line + "\n");
  }
  return file.finish();
}

InputFile InputFolder::csv() const {
  Writer file(path_ / "table.csv", csv_rows);
  std::array<float, csv_columns> row{};
  for (std::int64_t i = 0; i < csv_rows; ++i) {
    std::string line;
    for (std::size_t j = 0; j < row.size(); ++j) {
      row[j] = static_cast<float>(i % 1000) - static_cast<float>(j) / 8;
      fmt::format_to(std::back_inserter(line), "{}{:.3f}", j == 0 ? "" : ",", row[j]);
    }
    file.expect({reinterpret_cast<const char*>(row.data()), sizeof row});
    file.write(line + "\n");
  }
  return file.finish();
}

}  // namespace perf
