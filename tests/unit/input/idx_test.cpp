// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/idx.hpp>

#include <lockstep/base/error.hpp>

#include "input/files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace lockstep::input {
namespace {

Bytes word(std::uint32_t value) {
  return {static_cast<char>(value >> 24U), static_cast<char>(value >> 16U), static_cast<char>(value >> 8U),
          static_cast<char>(value)};
}

Bytes header(unsigned type, const std::vector<std::uint32_t>& extents) {
  Bytes bytes = word(type << 8U | static_cast<std::uint32_t>(extents.size()));
  for (const std::uint32_t extent : extents) bytes += word(extent);
  return bytes;
}

class Idx : public testing::Test {
 protected:
  Idx() : path_(std::filesystem::temp_directory_path() / ("lockstep-idx-" + std::to_string(getpid()))) {}
  ~Idx() override { std::filesystem::remove(path_); }

  Tensor read(const Bytes& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_idx(path_);
  }
  /// Expects that reading fails with `code` and a text that contains the path and `part`.
  void expect_error(const Bytes& bytes, Code code, const std::string& part) {
    try {
      static_cast<void>(read(bytes));
      ADD_FAILURE() << "no error for " << bytes.size() << " bytes, expected one with: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(error.text().find(path_.string()), std::string::npos) << error.what();
      EXPECT_NE(error.text().find(part), std::string::npos) << error.what();
    }
  }

  std::filesystem::path path_;
};

const Bytes images = header(0x08, {2, 3}) + "\x01\x02\x03\x04\x05\xff";

TEST_F(Idx, is_read_plain_and_compressed) {
  for (const Bytes& bytes : {images, packed(images)}) {
    const Tensor tensor = read(bytes);
    EXPECT_EQ(tensor.dtype(), DType::u8);
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    const auto elements = tensor.elements<std::uint8_t>();
    EXPECT_EQ(std::vector<int>(elements.begin(), elements.end()), (std::vector<int>{1, 2, 3, 4, 5, 255}));
  }
}

TEST_F(Idx, elements_of_several_bytes_are_converted_to_host_order) {
  EXPECT_EQ(read(header(0x0b, {2}) + Bytes("\x01\x02\xff\xfe", 4)).elements<std::int16_t>()[0], 0x0102);
  EXPECT_EQ(read(header(0x0b, {2}) + Bytes("\x01\x02\xff\xfe", 4)).elements<std::int16_t>()[1], -2);
  EXPECT_EQ(read(header(0x0c, {1}) + word(0xfffffffdU)).elements<std::int32_t>()[0], -3);
  EXPECT_EQ(read(header(0x0d, {1}) + word(0x3fc00000U)).elements<float>()[0], 1.5F);
  EXPECT_EQ(read(header(0x0e, {1}) + word(0xc0040000U) + word(0)).elements<double>()[0], -2.5);
  EXPECT_EQ(read(header(0x09, {1}) + "\xff").elements<std::int8_t>()[0], -1);
}

TEST_F(Idx, may_have_no_elements_or_no_axes) {
  EXPECT_EQ(read(header(0x08, {0, 28, 28})).shape(), (Shape{0, 28, 28}));
  EXPECT_EQ(read(header(0x08, {}) + "\x07").shape(), Shape{});
}

TEST_F(Idx, made_of_several_gzip_files_is_one) {
  const Tensor tensor = read(packed(images.substr(0, 14)) + packed(images.substr(14)));
  EXPECT_EQ(tensor.elements<std::uint8_t>()[5], 255);
}

TEST_F(Idx, that_is_missing_or_a_folder_is_an_invalid_argument) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const std::string& name : {std::string("/nowhere/images.idx"), folder}) {
    try {
      static_cast<void>(read_idx(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(error.text().find(name), std::string::npos) << error.what();
      EXPECT_NE(error.text().find(name == folder ? "directory" : "No such file"), std::string::npos) << error.what();
    }
  }
}

TEST_F(Idx, with_another_magic_number_is_refused) {
  expect_error("PNG and more", Code::invalid_argument, "not an IDX file");
  expect_error(packed("hello, world"), Code::invalid_argument, "not an IDX file");
  expect_error(header(0x0a, {1}) + "x", Code::invalid_argument, "0x00000a01");
  expect_error(header(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}) + "x", Code::invalid_argument, "at most 8 axes");
}

TEST_F(Idx, truncated_anywhere_is_data_loss) {
  for (std::size_t size = 0; size < images.size(); ++size)
    expect_error(images.substr(0, size), Code::data_loss, "truncated");
  const Bytes gzip = packed(images);
  for (std::size_t size = 0; size < gzip.size(); ++size)
    expect_error(gzip.substr(0, size), Code::data_loss, "truncated");
}

TEST_F(Idx, with_bytes_left_over_is_data_loss) {
  expect_error(images + "x", Code::data_loss, "and more");
  expect_error(packed(images + "x"), Code::data_loss, "and more");
  expect_error(packed(images) + "garbage", Code::data_loss, "follow");
  expect_error(packed(images) + packed("x"), Code::data_loss, "and more");
}

TEST_F(Idx, with_any_bit_of_its_gzip_data_flipped_is_never_read_wrongly) {
  const Bytes gzip = packed(images);
  const Tensor expected = read(images);
  for (std::size_t bit = 0; bit < 8 * gzip.size(); ++bit) {
    Bytes damaged = gzip;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {  // some bits of gzip's header have no effect, such as the time
      const Tensor tensor = read(damaged);
      EXPECT_EQ(tensor.shape(), expected.shape());
      EXPECT_TRUE(std::equal(tensor.elements<std::uint8_t>().begin(), tensor.elements<std::uint8_t>().end(),
                             expected.elements<std::uint8_t>().begin()));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::data_loss || error.code() == Code::invalid_argument) << error.what();
    }
  }
}

TEST_F(Idx, with_extents_too_large_for_its_file_is_refused_before_memory_is_allocated) {
  const std::uint32_t huge = 0xffffffffU;
  expect_error(header(0x08, {huge, huge, huge}), Code::data_loss, "do not fit");
  expect_error(header(0x0e, {huge, huge, huge, huge, huge, huge, huge, huge}), Code::data_loss, "do not fit");
  expect_error(header(0x08, {0, huge, huge, huge}), Code::data_loss, "do not fit");
  expect_error(header(0x08, {60000, 28, 28}) + "abc", Code::data_loss, "do not fit");
  expect_error(packed(header(0x08, {huge, huge}) + "abc"), Code::data_loss, "do not fit");
  expect_error(packed(header(0x08, {20000}) + "abc"), Code::data_loss, "truncated");
}

TEST_F(Idx, with_two_gigabytes_claimed_in_gzip_does_not_allocate_them) {
  const Bytes zeros(2'000'000, '\0');  // compressed to 2 KB, so the compression ratio alone would allow 2 MB
  expect_error(packed(header(0x08, {2'100'000}) + zeros), Code::data_loss, "found 2000000");
}

}  // namespace
}  // namespace lockstep::input
