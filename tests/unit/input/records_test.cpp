// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/records.hpp>

#include "base/crc32c.hpp"
#include "files.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using Texts = std::vector<Bytes>;

TEST(Crc32c, is_that_of_the_standard) {
  const Bytes digits = "123456789";
  EXPECT_EQ(detail::crc32c(std::as_bytes(std::span(digits))), 0xe3069283U);
  Bytes bytes;
  for (int length = 0; length < 70; ++length) {
    EXPECT_EQ(detail::crc32c(std::as_bytes(std::span(bytes))), slow_crc32c(bytes)) << length;
    EXPECT_EQ(detail::crc32c_by_table(std::as_bytes(std::span(bytes))), slow_crc32c(bytes)) << length;
    bytes += static_cast<char>(length * 73 + 5);
  }
}

class TfRecords : public Files {
 protected:
  void expect_bad(const Bytes& bytes, Code code, const std::string& part) const {
    const auto path = write("records", bytes);
    expect_error(code, {path.string(), part}, [&] { static_cast<void>(texts(tfrecord_dataset({path}))); });
  }
};

TEST_F(TfRecords, are_read_plain_and_compressed) {
  const Texts records{"one", "", Bytes(100'000, 'x'), "last"};
  Bytes bytes;
  for (const Bytes& record : records) bytes += tfrecord(record);
  for (const Bytes& content : {bytes, packed(bytes)}) {
    const auto dataset = tfrecord_dataset({write("records", content)});
    EXPECT_EQ(texts(dataset), records);
    EXPECT_EQ(texts(dataset), records);
    EXPECT_EQ(texts(dataset.skip(1).take(1)), Texts{""});
  }
  EXPECT_EQ(texts(tfrecord_dataset({write("records", "")})), Texts{});
}

TEST_F(TfRecords, with_the_first_bytes_of_gzip_data_are_read) {
  const Bytes record(0x8b1f, 'r');
  EXPECT_EQ(texts(tfrecord_dataset({write("records", tfrecord(record))})), Texts{record});
}

TEST_F(TfRecords, that_are_damaged_are_errors_with_the_position) {
  const Bytes good = tfrecord("first") + tfrecord("second");
  expect_bad(good.substr(0, good.size() - 1), Code::data_loss, "truncated: the record at byte 21 needs 22 bytes");
  expect_bad(good.substr(0, 25), Code::data_loss, "truncated: the record at byte 21 needs 12 bytes, found 4");
  Bytes length = good;
  length[22] = 1;
  expect_bad(length, Code::data_loss, "corrupt: wrong checksum of the length of the record at byte 21");
  Bytes content = good;
  content[34] = 'X';
  expect_bad(content, Code::data_loss, "corrupt: wrong checksum of the record of 6 bytes at byte 21");
  expect_bad("a text and no TFRecord file", Code::data_loss, "is not a TFRecord file");
  const Bytes huge = little_endian<std::uint64_t>(std::uint64_t{1} << 62);
  expect_bad(huge + masked_checksum(huge), Code::data_loss, "4611686018427387904 bytes");
  const Bytes large = little_endian<std::uint64_t>(1 << 29);
  expect_bad(large + masked_checksum(large), Code::data_loss, "truncated");
  expect_bad(packed(large + masked_checksum(large)), Code::data_loss, "truncated");
  const Bytes zipped = packed(good);
  expect_bad(zipped.substr(0, zipped.size() - 9), Code::data_loss, "truncated");
}

TEST_F(TfRecords, before_the_damage_are_returned) {
  auto iterator = tfrecord_dataset({write("records", tfrecord("first") + "damage!!!!!!!!!!!!!!!!!!!!")}).iterate();
  EXPECT_EQ(text_of(*iterator.get_next_as_optional()), "first");
  EXPECT_THROW(static_cast<void>(iterator.get_next_as_optional()), Error);
  EXPECT_FALSE(iterator.get_next_as_optional());
}

TEST_F(TfRecords, of_several_files_are_read_in_the_order_of_the_list_or_interleaved) {
  const auto a = write("a", tfrecord("a1") + tfrecord("a2") + tfrecord("a3"));
  const auto b = write("b", tfrecord("b1"));
  const auto c = write("c", packed(tfrecord("c1") + tfrecord("c2")));
  EXPECT_EQ(texts(tfrecord_dataset({c, a, b})), (Texts{"c1", "c2", "a1", "a2", "a3", "b1"}));
  EXPECT_EQ(texts(tfrecord_dataset({a, b, c}, {.interleave = {.cycle_length = 2}})),
            (Texts{"a1", "b1", "a2", "a3", "c1", "c2"}));
  EXPECT_EQ(texts(tfrecord_dataset({a, c}, {.interleave = {.cycle_length = 2, .block_length = 2}})),
            (Texts{"a1", "a2", "c1", "c2", "a3"}));
}

TEST_F(TfRecords, require_files_and_a_limit) {
  expect_error(Code::invalid_argument, {"tfrecord_dataset", "empty"}, [] { static_cast<void>(tfrecord_dataset({})); });
  expect_error(Code::invalid_argument, {"tfrecord_dataset: max_record_bytes is 0"},
               [] { static_cast<void>(tfrecord_dataset({"a"}, {.max_record_bytes = 0})); });
  expect_error(Code::invalid_argument, {"tfrecord_dataset: cycle_length is 0"},
               [] { static_cast<void>(tfrecord_dataset({"a"}, {.interleave = {.cycle_length = 0}})); });
  expect_error(Code::data_loss, {"6 bytes, more than max_record_bytes (5)"}, [&] {
    static_cast<void>(texts(tfrecord_dataset({write("records", tfrecord("second"))}, {.max_record_bytes = 5})));
  });
  for (const auto& path : {folder_ / "missing", folder_}) {
    expect_error(Code::invalid_argument, {path.string()}, [&] { static_cast<void>(texts(tfrecord_dataset({path}))); });
  }
}

class TextLines : public Files {};

TEST_F(TextLines, are_read_without_their_ends) {
  const Bytes text = "one\n\ntwo\r\nlast";
  const Texts lines{"one", "", "two", "last"};
  for (const Bytes& bytes : {text, text + "\n", packed(text)}) {
    EXPECT_EQ(texts(text_line_dataset({write("text", bytes)})), lines);
  }
  EXPECT_EQ(texts(text_line_dataset({write("text", "")})), Texts{});
  EXPECT_EQ(texts(text_line_dataset({write("text", "\n")})), Texts{""});
}

TEST_F(TextLines, longer_than_a_buffer_are_read) {
  Texts lines;
  Bytes text;
  for (const std::size_t length : std::initializer_list<std::size_t>{10, 600'000, 0, 262'143, 262'144, 5, 1'000'000}) {
    lines.emplace_back(length, static_cast<char>('a' + lines.size()));
    text += lines.back() + '\n';
  }
  for (const Bytes& bytes : {text, packed(text)}) EXPECT_EQ(texts(text_line_dataset({write("text", bytes)})), lines);
}

TEST_F(TextLines, are_limited) {
  const auto path = write("text", "12345\n123456\n");
  EXPECT_EQ(texts(text_line_dataset({path}, {.max_record_bytes = 6})), (Texts{"12345", "123456"}));
  expect_error(Code::data_loss, {path.string(), "line at byte 6", "max_record_bytes (5)"},
               [&] { static_cast<void>(texts(text_line_dataset({path}, {.max_record_bytes = 5}))); });
  expect_error(Code::data_loss, {"max_record_bytes (1000)"}, [&] {
    static_cast<void>(
        texts(text_line_dataset({write("bomb", packed(Bytes(1'000'000, 'x')))}, {.max_record_bytes = 1000})));
  });
}

class FixedLengthRecords : public Files {
 protected:
  FixedLengthRecordOptions options_{.header_bytes = 2, .footer_bytes = 3};
};

TEST_F(FixedLengthRecords, are_read_between_header_and_footer) {
  const Bytes content = "hhabcdefghifff";
  const auto plain = fixed_length_record_dataset({write("plain", content)}, 3, options_);
  EXPECT_EQ(texts(plain), (Texts{"abc", "def", "ghi"}));
  EXPECT_EQ(plain.cardinality(), Cardinality::known(3));
  EXPECT_EQ(text_of(*plain.shuffle(1).batch(3).iterate().get_next_as_optional()).size(), 9U);
  options_.compression = Compression::gzip;
  EXPECT_EQ(texts(fixed_length_record_dataset({write("packed", packed(content))}, 3, options_)),
            (Texts{"abc", "def", "ghi"}));
  EXPECT_EQ(texts(fixed_length_record_dataset({write("a", "xxyy"), write("b", "zz")}, 2)), (Texts{"xx", "yy", "zz"}));
  EXPECT_EQ(texts(fixed_length_record_dataset({write("a", "")}, 2)), Texts{});
}

TEST_F(FixedLengthRecords, of_files_with_partial_records_are_refused) {
  const auto path = write("records", "hhabcdefghfff");
  expect_error(Code::data_loss,
               {path.string(), "header_bytes (2)", "footer_bytes (3)", "record_bytes (3)", "the file has 13 bytes"},
               [&] { static_cast<void>(fixed_length_record_dataset({path}, 3, options_)); });
  expect_error(Code::data_loss, {path.string(), "has 4 bytes"},
               [&] { static_cast<void>(fixed_length_record_dataset({write("records", "hhff")}, 3, options_)); });
  options_.compression = Compression::gzip;
  const auto file = write("packed", packed("hhabcdefghfff"));
  auto iterator = fixed_length_record_dataset({file}, 3, options_).iterate();
  EXPECT_EQ(text_of(*iterator.get_next_as_optional()), "abc");
  EXPECT_TRUE(iterator.get_next_as_optional());
  expect_error(Code::data_loss, {file.string(), "the end after the last whole record has 5 bytes"},
               [&] { static_cast<void>(iterator.get_next_as_optional()); });
  expect_error(Code::data_loss, {"not gzip data"}, [&] {
    static_cast<void>(texts(fixed_length_record_dataset({write("packed", "hhabcfff")}, 3, options_)));
  });
  expect_error(Code::data_loss, {"the decompressed content has 4 bytes"}, [&] {
    static_cast<void>(texts(fixed_length_record_dataset({write("packed", packed("hhff"))}, 3, options_)));
  });
}

TEST_F(FixedLengthRecords, require_a_length) {
  const auto expect_bad = [](const std::string& part, std::int64_t bytes, const FixedLengthRecordOptions& options) {
    expect_error(Code::invalid_argument, {part},
                 [&] { static_cast<void>(fixed_length_record_dataset({"a"}, bytes, options)); });
  };
  expect_bad("record_bytes is 0", 0, {});
  expect_bad("header_bytes is -1", 1, {.header_bytes = -1});
  expect_bad("footer_bytes is -1", 1, {.footer_bytes = -1});
  expect_error(Code::invalid_argument, {"empty"}, [] { static_cast<void>(fixed_length_record_dataset({}, 1)); });
}

}  // namespace
}  // namespace lockstep
