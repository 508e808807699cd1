// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writers of files of every format, independent of the library's readers.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

using test::expect_error;
using Bytes = std::string;

template <class T>
Bytes little_endian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// Compresses with deflate; `window` selects gzip (16 + 15) or raw deflate data (-15).
inline Bytes packed(const Bytes& bytes, int window = 16 + MAX_WBITS) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY);
  Bytes result(deflateBound(&stream, bytes.size()) + 64, '\0');
  Bytes source = bytes;
  stream.next_in = reinterpret_cast<unsigned char*>(source.data());
  stream.avail_in = static_cast<unsigned>(source.size());
  stream.next_out = reinterpret_cast<unsigned char*>(result.data());
  stream.avail_out = static_cast<unsigned>(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// Bit by bit, by the definition.
inline std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

inline Bytes masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = slow_crc32c(bytes);
  return little_endian((crc >> 15U | crc << 17U) + 0xa282ead8U);
}

inline Bytes tfrecord(const Bytes& record) {
  const Bytes length = little_endian<std::uint64_t>(record.size());
  return length + masked_checksum(length) + record + masked_checksum(record);
}

/// A .npy file of version 1.
inline Bytes npy(const Bytes& descr, const Bytes& shape, const Bytes& elements, const Bytes& fortran = "False") {
  Bytes header = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return Bytes("\x93NUMPY\x01\x00", 8) + little_endian(static_cast<std::uint16_t>(header.size())) + header + elements;
}

/// A zip archive of (name, content).
inline Bytes zip(const std::vector<std::pair<Bytes, Bytes>>& members, bool deflated = false) {
  Bytes result;
  Bytes directory;
  for (const auto& [name, content] : members) {
    const Bytes data = deflated ? packed(content, -MAX_WBITS) : content;
    const auto crc = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const unsigned char*>(content.data()), static_cast<unsigned>(content.size())));
    const Bytes common = little_endian<std::uint16_t>(20) + little_endian<std::uint16_t>(0) +
                         little_endian<std::uint16_t>(deflated ? 8 : 0) + little_endian<std::uint32_t>(0) +
                         little_endian(crc) + little_endian(static_cast<std::uint32_t>(data.size())) +
                         little_endian(static_cast<std::uint32_t>(content.size())) +
                         little_endian(static_cast<std::uint16_t>(name.size())) + little_endian<std::uint16_t>(0);
    directory += "PK\x01\x02" + little_endian<std::uint16_t>(20) + common + Bytes(10, '\0') +
                 little_endian(static_cast<std::uint32_t>(result.size())) + name;
    result += "PK\x03\x04" + common + name + data;
  }
  const auto entries = static_cast<std::uint16_t>(members.size());
  return result + directory + "PK\x05\x06" + Bytes(4, '\0') + little_endian(entries) + little_endian(entries) +
         little_endian(static_cast<std::uint32_t>(directory.size())) +
         little_endian(static_cast<std::uint32_t>(result.size())) + Bytes(2, '\0');
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto elements = tensor.elements<T>();
  return {elements.begin(), elements.end()};
}

inline Bytes text_of(const Tensor& tensor) {
  const auto elements = tensor.elements<std::uint8_t>();
  return {elements.begin(), elements.end()};
}

inline std::vector<Bytes> texts(const Dataset<Tensor>& dataset) {
  std::vector<Bytes> result;
  for (const Tensor& element : dataset) result.push_back(text_of(element));
  return result;
}

/// A test with a temporary folder.
class Files : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    directory_.write(name, bytes);
    return folder_ / name;
  }

  const test::TemporaryDirectory directory_;
  const std::filesystem::path& folder_ = directory_.path();
};

}  // namespace lockstep
