// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/csv.hpp>

#include "files.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using Row = std::vector<float>;
using Texts = std::vector<Bytes>;

class Csv : public Files {
 protected:
  /// The fields of all records, as text.
  Texts fields(const Bytes& bytes, std::size_t columns) const {
    const CsvColumn text{.dtype = std::nullopt};
    Texts result;
    if (columns == 1) {
      for (const Tensor& field : csv_dataset<Tensor>({write("data.csv", bytes)}, {.columns = {text}})) {
        result.push_back(text_of(field));
      }
    } else {
      const CsvOptions options{.columns = {text, text}};
      for (const auto& [a, b] : csv_dataset<std::pair<Tensor, Tensor>>({write("data.csv", bytes)}, options)) {
        result.push_back(text_of(a));
        result.push_back(text_of(b));
      }
    }
    return result;
  }
  void expect_bad(const Bytes& bytes, const std::vector<std::string>& parts) const {
    std::vector<std::string> all = parts;
    all.push_back((folder_ / "data.csv").string());
    expect_error(Code::data_loss, all, [&] { static_cast<void>(fields(bytes, 2)); });
    expect_error(Code::data_loss, all, [&] { static_cast<void>(fields(packed(bytes), 2)); });
  }
};

TEST_F(Csv, fields_are_plain_or_quoted) {
  EXPECT_EQ(fields("a,b\nc,d\n", 2), (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(fields("a,b\r\nc,d", 2), (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(fields("\"a,b\",\"c\"\"d\"\n\"\",\"e\nf\"", 2), (Texts{"a,b", "c\"d", "", "e\nf"}));
  EXPECT_EQ(fields("\"a\",\"b\"\r\n,\r\n", 2), (Texts{"a", "b", "", ""}));
  EXPECT_EQ(fields("\n\r\na,b\n\n\nc,d\n\n", 2), (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(fields("\"\"\n\"\"\"\"\n\"x\ry\"", 1), (Texts{"", "\"", "x\ry"}));
  EXPECT_EQ(fields("\xef\xbb\xbf"
                   "a,b",
                   2),
            (Texts{"a", "b"}));
  EXPECT_EQ(fields("", 2), Texts{});
  EXPECT_EQ(fields("\n\n", 2), Texts{});
}

TEST_F(Csv, records_longer_than_a_buffer_are_read) {
  Texts expected;
  Bytes bytes;
  for (const std::size_t length :
       std::initializer_list<std::size_t>{10, 300'000, 262'139, 262'140, 262'141, 262'142, 1, 900'000}) {
    expected.emplace_back(length, 'x');
    expected.push_back("\"" + Bytes(length, 'y') + "\n");
    bytes += Bytes(length, 'x') + ",\"\"\"" + Bytes(length, 'y') + "\n\"\r\n";
  }
  EXPECT_EQ(fields(bytes, 2), expected);
  EXPECT_EQ(fields(packed(bytes), 2), expected);
}

TEST_F(Csv, columns_have_types) {
  const auto path = write("data.csv", "1,-2,+3, 4.5\t,1e-3,True,0\n-128,32767,2,inf,nan,0,1\n");
  const CsvOptions options{
      .columns = {{DType::i8}, {DType::i16}, {DType::u64}, {DType::f32}, {DType::f64}, {DType::boolean}, {DType::f16}}};
  using T = std::array<Tensor, 7>;
  auto iterator = csv_dataset<T>({path}, options).iterate();
  const T first = *iterator.get_next_as_optional();
  EXPECT_EQ(values_of<std::int8_t>(first[0]), std::vector<std::int8_t>{1});
  EXPECT_EQ(values_of<std::int16_t>(first[1]), std::vector<std::int16_t>{-2});
  EXPECT_EQ(values_of<std::uint64_t>(first[2]), std::vector<std::uint64_t>{3});
  EXPECT_EQ(values_of<float>(first[3]), Row{4.5F});
  EXPECT_EQ(values_of<double>(first[4]), std::vector<double>{1e-3});
  EXPECT_TRUE(first[5].elements<bool>()[0]);
  EXPECT_EQ(first[6].dtype(), DType::f16);
  EXPECT_EQ(first[0].shape(), Shape{});
  const T second = *iterator.get_next_as_optional();
  EXPECT_EQ(values_of<std::int8_t>(second[0]), std::vector<std::int8_t>{-128});
  EXPECT_FALSE(second[5].elements<bool>()[0]);
  EXPECT_EQ(static_cast<float>(second[6].elements<Float16>()[0]), 1.0F);
  EXPECT_FALSE(iterator.get_next_as_optional());
}

TEST_F(Csv, columns_of_one_type_can_be_one_vector) {
  const auto path = write("data.csv", "1,2,3\n4,5,6\n");
  const CsvOptions options{.columns = {{}, {}, {}}};
  std::vector<Row> rows;
  for (const Tensor& row : csv_dataset<Tensor>({path}, options)) rows.push_back(values_of<float>(row));
  EXPECT_EQ(rows, (std::vector<Row>{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(csv_dataset<Tensor>({path}, options).batch(2).iterate().get_next_as_optional()->shape(), (Shape{2, 3}));
}

TEST_F(Csv, consecutive_columns_can_be_one_tensor_of_a_tuple) {
  const auto path = write("data.csv", "y,x0,x1,x2,z\n1,10,11,12,7\n2,20,,22,8\n");
  using Example = std::tuple<Tensor, Tensor, Tensor>;
  const CsvOptions options{.columns = {{.name = "y"},
                                       {.dtype = DType::f64, .default_value = "-1", .name = "x0", .count = 3},
                                       {.dtype = DType::i32, .count = 1}},
                           .has_header = true};
  std::vector<double> all;
  for (const auto& [y, x, z] : csv_dataset<Example>({path}, options)) {
    EXPECT_EQ(y.shape(), Shape{});
    EXPECT_EQ(x.shape(), Shape{3});
    EXPECT_EQ(z.shape(), Shape{1});
    all.push_back(y.elements<float>()[0]);
    for (const double value : x.elements<double>()) all.push_back(value);
    all.push_back(z.elements<std::int32_t>()[0]);
  }
  EXPECT_EQ(all, (std::vector<double>{1, 10, 11, 12, 7, 2, 20, -1, 22, 8}));

  // one tensor of all columns
  const CsvOptions whole{.columns = {{.index = 1, .count = 2}, {.index = 4}}, .has_header = true};
  for (const Tensor& row : csv_dataset<Tensor>({write("one.csv", "y,x0,x1,x2,z\n1,10,11,12,7\n")}, whole)) {
    EXPECT_EQ(std::vector<float>(row.elements<float>().begin(), row.elements<float>().end()), (Row{10, 11, 7}));
  }
}

TEST_F(Csv, counts_of_columns_are_checked) {
  const auto path = write("data.csv", "y,x0,x1\n1,10,eleven\n");
  using Example = std::pair<Tensor, Tensor>;
  const auto read = [&](const CsvColumn& features) {
    for ([[maybe_unused]] const auto& each :
         csv_dataset<Example>({path}, {.columns = {{.name = "y"}, features}, .has_header = true})) {}
  };
  expect_error(Code::invalid_argument, {"columns[1] has count 0; it must be at least 1"}, [&] { read({.count = 0}); });
  expect_error(Code::invalid_argument, {"columns[1] has count 2, but no dtype"},
               [&] { read({.dtype = std::nullopt, .count = 2}); });
  expect_error(Code::invalid_argument,
               {"data.csv:1", "the file has 3 columns", "columns[1] selects 3 columns from column 1"},
               [&] { read({.count = 3}); });
  expect_error(Code::data_loss, {"data.csv:2", "column \"x1\" must be f32, found \"eleven\""},
               [&] { read({.count = 2}); });
}

TEST_F(Csv, errors_name_a_column_of_the_header_that_was_selected_by_its_number) {
  const CsvOptions options{.columns = {{.index = 0}}, .has_header = true};
  for (const auto& [bytes, text] : {std::pair{"x0,x1\nfour,5\n", "column \"x0\" must be f32"},
                                    {"x0,x1\n,5\n", "column \"x0\" is empty"},
                                    {",x1\nfour,5\n", "column 0 (columns are numbered from 0) must be f32"}}) {
    const auto path = write("data.csv", bytes);
    expect_error(Code::data_loss, {"data.csv:2", text}, [&] {
      for ([[maybe_unused]] const Tensor& each : csv_dataset<Tensor>({path}, options)) {}
    });
  }
}

TEST_F(Csv, columns_are_found_by_number_or_by_name) {
  const auto a = write("a.csv", "x,y,label\n1,2,3\n");
  const auto b = write("b.csv", "label,x,y\n6,4,5\n");
  const CsvOptions by_name{.columns = {{.name = "label"}, {.name = "x"}}, .has_header = true};
  std::vector<Row> rows;
  for (const Tensor& row : csv_dataset<Tensor>({a, b}, by_name)) rows.push_back(values_of<float>(row));
  EXPECT_EQ(rows, (std::vector<Row>{{3, 1}, {6, 4}}));
  rows.clear();
  const CsvOptions by_number{.columns = {{.index = 1}, {}, {.index = 0}}, .has_header = true};
  for (const Tensor& row : csv_dataset<Tensor>({a}, by_number)) rows.push_back(values_of<float>(row));
  EXPECT_EQ(rows, (std::vector<Row>{{2, 3, 1}}));
  const CsvOptions missing{.columns = {{.name = "z"}}, .has_header = true};
  expect_error(Code::invalid_argument, {"a.csv:1", "\"z\"", "x, y, label"},
               [&] { static_cast<void>(csv_dataset<Tensor>({a}, missing).iterate().get_next_as_optional()); });
  const CsvOptions beyond{.columns = {{.index = 3}}, .has_header = true};
  expect_error(Code::invalid_argument, {"a.csv:1", "3 columns", "columns[0] selects column 3"},
               [&] { static_cast<void>(csv_dataset<Tensor>({a}, beyond).iterate().get_next_as_optional()); });
}

TEST_F(Csv, empty_fields_have_defaults_or_are_errors) {
  const auto path = write("data.csv", "1;\n;2\n");
  const CsvOptions options{.columns = {{DType::f32, "-1"}, {DType::f32, "7.5"}}, .delimiter = ';'};
  std::vector<Row> rows;
  for (const Tensor& row : csv_dataset<Tensor>({path}, options)) rows.push_back(values_of<float>(row));
  EXPECT_EQ(rows, (std::vector<Row>{{1, 7.5F}, {-1, 2}}));
  const CsvOptions without{.columns = {{DType::f32, "-1"}, {}}, .delimiter = ';'};
  expect_error(Code::data_loss, {"data.csv:1", "column 1 (columns are numbered from 0) is empty", "default_value"},
               [&] { static_cast<void>(csv_dataset<Tensor>({path}, without).iterate().get_next_as_optional()); });
}

TEST_F(Csv, values_of_another_type_are_errors_with_file_line_and_column) {
  const auto expect_wrong = [&](const Bytes& value, DType dtype) {
    const auto path = write("data.csv", "0\n0\n" + value + "\n");
    const auto dataset = csv_dataset<Tensor>({path}, {.columns = {{dtype}}});
    expect_error(
        Code::data_loss,
        {"data.csv:3", "column 0 (columns are numbered from 0) must be " + std::string(to_string(dtype)), value}, [&] {
          for (const Tensor& element : dataset) static_cast<void>(element);
        });
  };
  expect_wrong("x", DType::f32);
  expect_wrong("1.5", DType::i32);
  expect_wrong("1 2", DType::f32);
  expect_wrong("1x", DType::f64);
  expect_wrong("300", DType::u8);
  expect_wrong("-1", DType::u16);
  expect_wrong("2", DType::boolean);
  expect_wrong("1e999", DType::f64);
  expect_wrong("--1", DType::i64);
  expect_wrong("+-1", DType::i64);
  expect_wrong("++1", DType::f32);
}

TEST_F(Csv, that_is_damaged_is_an_error_with_the_position) {
  expect_bad("a,b\nc,d,e\n", {"data.csv:2", "3 fields", "first record of the file has 2"});
  expect_bad("a,b\nc\n", {"data.csv:2", "the record has 1 field, but"});
  expect_bad("a,b\n\"c\nd\",e\nf,\"g",
             {"data.csv:4", "invalid CSV at byte 14, in the record that begins at byte 12: ", "unclosed quote"});
  expect_bad("a,b\nc\"d,e", {"data.csv:2", "byte 5", "inside an unquoted field"});
  expect_bad("a,b\n\"c\"d,e", {"data.csv:2", "byte 7", "after a closing quote"});
}

TEST_F(Csv, records_are_limited) {
  const auto path = write("data.csv", "1,2\n\"" + Bytes(100, '3'));
  const CsvOptions options{.columns = {{}, {}}, .records = {.max_record_bytes = 20}};
  expect_error(Code::data_loss, {"data.csv:2", "more than 20 bytes", "possibly a quote is not closed"}, [&] {
    for (const Tensor& element : csv_dataset<Tensor>({path}, options)) static_cast<void>(element);
  });
}

TEST_F(Csv, options_are_checked) {
  const auto expect_refused = [](const std::vector<std::string>& parts, const CsvOptions& options) {
    expect_error(Code::invalid_argument, parts, [&] { static_cast<void>(csv_dataset<Tensor>({"a"}, options)); });
  };
  expect_refused({"columns has 0 entries", "1 tensor;"}, {});
  expect_refused({"columns[0] is f32 and columns[1] is i32", "same numeric dtype"},
                 {.columns = {{DType::f32}, {DType::i32}}});
  expect_refused({"columns[0] is f32 and columns[1] is text", "same numeric dtype"},
                 {.columns = {{DType::f32}, {.dtype = std::nullopt}}});
  expect_refused({"default_value of columns[0] must be i32", "\"1.5\""}, {.columns = {{DType::i32, "1.5"}}});
  expect_refused({"\"x\"", "has_header"}, {.columns = {{.name = "x"}}});
  expect_refused({"delimiter"}, {.columns = {{}}, .delimiter = '"'});
  expect_error(Code::invalid_argument, {"csv_dataset", "empty"},
               [] { static_cast<void>(csv_dataset<Tensor>({}, {.columns = {{}}})); });
  expect_error(Code::invalid_argument, {"columns has 1 entry", "2 tensors"},
               [] { static_cast<void>(csv_dataset<std::pair<Tensor, Tensor>>({"a"}, {.columns = {{}}})); });
}

}  // namespace
}  // namespace lockstep
