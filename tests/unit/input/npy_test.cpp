// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/npy.hpp>

#include "files.hpp"

#include <lockstep/input/idx.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

using Integers = std::vector<std::int32_t>;

Bytes swapped(Bytes bytes, std::size_t unit) {
  for (std::size_t i = 0; i < bytes.size(); i += unit) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i), bytes.begin() + static_cast<std::ptrdiff_t>(i + unit));
  }
  return bytes;
}

const Integers six{1, 2, 3, 4, 5, 6};

class Npy : public Files {
 protected:
  Tensor read(const Bytes& bytes) const { return input::read_npy(write("array.npy", bytes)); }
  void expect_bad(const Bytes& bytes, Code code, const std::string& part) const {
    expect_error(code, {(folder_ / "array.npy").string(), part}, [&] { static_cast<void>(read(bytes)); });
    expect_error(code, {(folder_ / "array.npy").string(), part},
                 [&] { static_cast<void>(npy_dataset({write("array.npy", bytes)})); });
  }
};

TEST_F(Npy, is_read_in_each_element_type) {
  const std::map<std::string, DType> types{{"|b1", DType::boolean}, {"|i1", DType::i8},  {"|u1", DType::u8},
                                           {"<i2", DType::i16},     {"<u2", DType::u16}, {"<i4", DType::i32},
                                           {"<u4", DType::u32},     {"<i8", DType::i64}, {"<u8", DType::u64},
                                           {"<f2", DType::f16},     {"<f4", DType::f32}, {"<f8", DType::f64}};
  for (const auto& [descr, dtype] : types) {
    Bytes elements;
    for (std::size_t i = 0; i < 3 * size_of(dtype); ++i)
      elements += static_cast<char>(dtype == DType::boolean ? i % 2 : i);
    const Tensor tensor = read(npy(descr, "(3,)", elements));
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.shape(), Shape{3});
    EXPECT_EQ(Bytes(static_cast<const char*>(tensor.data()), tensor.byte_count()), elements) << descr;
  }
}

TEST_F(Npy, is_read_in_either_byte_and_axis_order_and_compressed) {
  const Bytes plain = npy("<i4", "(2, 3)", bytes_of(six));
  const Bytes big = npy(">i4", "(2, 3)", swapped(bytes_of(six), 4));
  const Bytes fortran = npy("<i4", "(2, 3)", bytes_of(Integers{1, 4, 2, 5, 3, 6}), "True");
  for (const Bytes& bytes : {plain, big, fortran, packed(plain), packed(fortran)}) {
    EXPECT_EQ(read(bytes).shape(), (Shape{2, 3}));
    EXPECT_EQ(values_of<std::int32_t>(read(bytes)), six);
    std::vector<Integers> rows;
    for (const Tensor& row : npy_dataset({write("array.npy", bytes)})) rows.push_back(values_of<std::int32_t>(row));
    EXPECT_EQ(rows, (std::vector<Integers>{{1, 2, 3}, {4, 5, 6}}));
  }
  const Tensor cube = read(npy("|u1", "(2, 2, 2)", Bytes("\x00\x04\x02\x06\x01\x05\x03\x07", 8), "True"));
  EXPECT_EQ(values_of<std::uint8_t>(cube), (std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(Npy, of_scalars_and_of_nothing_are_read) {
  EXPECT_EQ(read(npy("<i4", "()", bytes_of(Integers{7}))).shape(), Shape{});
  EXPECT_EQ(read(npy("<i4", "(0, 5)", "")).shape(), (Shape{0, 5}));
  EXPECT_EQ(npy_dataset({write("a", npy("<i4", "(0, 5)", ""))}).cardinality(), Cardinality::known(0));
  expect_error(Code::invalid_argument, {"a", "scalar", "no rows"},
               [&] { static_cast<void>(npy_dataset({write("a", npy("<i4", "()", bytes_of(Integers{7})))})); });
}

TEST_F(Npy, headers_may_have_other_spacing_and_padding) {
  const Bytes odd = "{\"shape\":(2L,3L),'fortran_order' : False , 'descr':'<i4'}";
  for (const char version : {'\x02', '\x03'}) {
    const Bytes bytes = Bytes("\x93NUMPY") + version + Bytes(1, '\0') +
                        little_endian(static_cast<std::uint32_t>(odd.size())) + odd + bytes_of(six);
    EXPECT_EQ(values_of<std::int32_t>(read(bytes)), six);
  }
}

TEST_F(Npy, bools_are_0_or_1_whatever_the_file_has) {
  const Tensor tensor = read(npy("|b1", "(3,)", Bytes("\x00\x02\xff", 3)));
  EXPECT_EQ(Bytes(static_cast<const char*>(tensor.data()), 3), Bytes("\x00\x01\x01", 3));
}

TEST_F(Npy, that_is_damaged_is_an_error_with_the_position) {
  const Bytes good = npy("<i4", "(2, 3)", bytes_of(six));
  expect_bad(good.substr(0, good.size() - 1), Code::data_loss, "do not fit in the 23 bytes");
  expect_bad(good + "x", Code::data_loss, "and more");
  expect_bad(good.substr(0, 20), Code::data_loss, "truncated");
  expect_bad(good.substr(0, 9), Code::data_loss, "header's length");
  expect_bad("", Code::invalid_argument, "not a .npy file");
  expect_bad("PK\x03\x04 something else", Code::invalid_argument, "not a .npy file");
  expect_bad(Bytes("\x93NUMPY\x09\x00", 8), Code::invalid_argument, "version 9");
  expect_bad(npy("<i4", "(4611686018427387904, 4)", ""), Code::data_loss, "do not fit in the 0 bytes");
  expect_bad(npy("<i4", "(99999999999999999999,)", ""), Code::data_loss, "extent");
  expect_bad(npy("<i4", "(-1,)", ""), Code::data_loss, "extent");
  expect_bad(npy("<i4", "(2 3)", bytes_of(six)), Code::data_loss, "expected )");
  expect_bad(npy("<c8", "(3,)", bytes_of(six)), Code::invalid_argument, "'<c8'");
  expect_bad(npy("|O", "(3,)", bytes_of(six)), Code::invalid_argument, "'|O'");
  expect_bad(npy("<i4", "(1,1,1,1,1,1,1,1,6)", bytes_of(six)), Code::invalid_argument, "9 axes");
  expect_bad(npy("<i4", "(6,), 'more': 1", bytes_of(six)), Code::data_loss, "unknown key");
  Bytes missing = npy("<i4", "(6,)", bytes_of(six));
  missing.replace(missing.find("shape"), 5, "descr");
  expect_bad(missing, Code::data_loss, "quoted");
  Bytes structure = npy("<i4", "(6,)", bytes_of(six));
  structure.replace(structure.find("'<i4'"), 5, "[('a'");
  expect_bad(structure, Code::invalid_argument, "structures");
  const Bytes long_header = Bytes("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12) + bytes_of(six);
  expect_bad(long_header, Code::data_loss, "2147483647 bytes");
}

TEST_F(Npy, compressed_that_is_damaged_is_an_error_too) {
  const Bytes good = packed(npy("<i4", "(2, 3)", bytes_of(six)));
  expect_bad(good.substr(0, good.size() - 4), Code::data_loss, "truncated");
  Bytes flipped = good;
  flipped[good.size() - 7] = static_cast<char>(flipped[good.size() - 7] ^ 1);
  expect_bad(flipped, Code::data_loss, "corrupt");
}

TEST_F(Npy, that_cannot_be_opened_is_named) {
  for (const auto& path : {folder_ / "missing", folder_}) {
    expect_error(Code::invalid_argument, {path.string()}, [&] { static_cast<void>(input::read_npy(path)); });
    expect_error(Code::invalid_argument, {path.string()}, [&] { static_cast<void>(npy_dataset({path})); });
    expect_error(Code::invalid_argument, {path.string()}, [&] { static_cast<void>(input::read_npz(path)); });
  }
  expect_error(Code::invalid_argument, {"/dev/null", "not a regular file"},
               [] { static_cast<void>(npy_dataset({"/dev/null"})); });
  expect_error(Code::invalid_argument, {"npy_dataset", "empty"}, [] { static_cast<void>(npy_dataset({})); });
}

TEST_F(Npy, rows_of_several_files_have_random_access) {
  const auto first = write("first", npy("<i4", "(2, 3)", bytes_of(six)));
  const auto second = write("second", npy(">i4", "(1, 3)", swapped(bytes_of(Integers{7, 8, 9}), 4)));
  const auto third = write("third", packed(npy("<i4", "(1, 3)", bytes_of(Integers{10, 11, 12}))));
  const auto rows = npy_dataset({first, second, third});
  EXPECT_EQ(rows.cardinality(), Cardinality::known(4));
  const Tensor all = *rows.batch(4).iterate().get_next_as_optional();
  EXPECT_EQ(values_of<std::int32_t>(all), (Integers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  std::multiset<std::int32_t> seen;
  for (const Tensor& batch : rows.shuffle(1).batch(3)) {
    for (const std::int32_t value : values_of<std::int32_t>(batch)) seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 12U);
  EXPECT_EQ(*seen.rbegin(), 12);
  const auto other = write("other", npy("<i4", "(3, 2)", bytes_of(six)));
  expect_error(Code::invalid_argument, {"other", "first", "i32[2]", "i32[3]", "same dtype and shape"},
               [&] { static_cast<void>(npy_dataset({first, other})); });
}

class Npz : public Files {
 protected:
  std::vector<std::pair<Bytes, Bytes>> arrays_{{"x.npy", npy("<i4", "(2, 3)", bytes_of(six))},
                                               {"y.npy", npy("<f8", "(2,)", bytes_of(std::vector<double>{0.5, -1}))},
                                               {"scale.npy", npy("<i4", "()", bytes_of(Integers{7}))}};
};

TEST_F(Npz, is_read_stored_and_deflated) {
  for (const bool deflated : {false, true}) {
    const auto path = write("arrays.npz", zip(arrays_, deflated));
    const auto arrays = input::read_npz(path);
    EXPECT_EQ(arrays.size(), 3U);
    EXPECT_EQ(values_of<std::int32_t>(arrays.at("x")), six);
    EXPECT_EQ(values_of<double>(arrays.at("y")), (std::vector<double>{0.5, -1}));
    EXPECT_EQ(arrays.at("scale").shape(), Shape{});
    std::vector<double> labels;
    for (const auto& [x, y] : npz_dataset<std::pair<Tensor, Tensor>>({path, path}, {"x", "y"})) {
      EXPECT_EQ(x.shape(), Shape{3});
      labels.push_back(y.elements<double>().front());
    }
    EXPECT_EQ(labels, (std::vector<double>{0.5, -1, 0.5, -1}));
  }
}

TEST_F(Npz, without_the_requested_arrays_is_an_error) {
  const auto path = write("arrays.npz", zip(arrays_));
  expect_error(Code::invalid_argument, {path.string(), "\"z\"", "x, y, scale"},
               [&] { static_cast<void>(npz_dataset<Tensor>({path}, {"z"})); });
  expect_error(Code::invalid_argument, {"names has 1 array", "2 tensors"},
               [&] { static_cast<void>(npz_dataset<std::pair<Tensor, Tensor>>({path}, {"x"})); });
  expect_error(Code::invalid_argument, {"scale", "scalar"},
               [&] { static_cast<void>(npz_dataset<Tensor>({path}, {"scale"})); });
  arrays_[1].second = npy("|u1", "(3,)", "abc");
  expect_error(Code::invalid_argument, {"\"x\" has 2 rows", "\"y\" has 3"}, [&] {
    static_cast<void>(npz_dataset<std::pair<Tensor, Tensor>>({write("arrays.npz", zip(arrays_))}, {"x", "y"}));
  });
}

TEST_F(Npz, that_is_damaged_is_an_error_with_the_position) {
  const auto expect_bad = [&](const Bytes& bytes, Code code, const std::string& part) {
    const auto path = write("arrays.npz", bytes);
    expect_error(code, {path.string(), part}, [&] { static_cast<void>(input::read_npz(path)); });
  };
  expect_bad("", Code::invalid_argument, "not a zip archive");
  expect_bad("not a zip archive at all, but long enough", Code::invalid_argument, "not a zip archive");
  for (const bool deflated : {false, true}) {
    const Bytes good = zip(arrays_, deflated);
    expect_bad(good.substr(0, good.size() - 1), Code::invalid_argument, "truncated");
    expect_bad(good.substr(9), Code::data_loss, "damaged");
    Bytes content = good;
    content[deflated ? 60 : 170] = static_cast<char>(content[deflated ? 60 : 170] ^ 8);
    const auto path = write("arrays.npz", content);
    EXPECT_THROW(static_cast<void>(input::read_npz(path)), Error);
    EXPECT_THROW(static_cast<void>(npz_dataset<Tensor>({path}, {"x"})), Error);
    Bytes size = good;
    const std::size_t entry = size.find("PK\x01\x02");
    size[entry + 27] = '\x7f';  // 2 GB
    expect_bad(size, Code::data_loss, deflated ? "x.npy" : "is stored in");
    Bytes method = good;
    method[entry + 10] = 12;
    expect_bad(method, Code::invalid_argument, "method 12");
    Bytes flags = good;
    flags[entry + 8] = 1;
    expect_bad(flags, Code::invalid_argument, "encrypted");
    Bytes offset = good;
    offset[entry + 45] = '\x7f';
    expect_bad(offset, Code::data_loss, "but the file has");
    Bytes entries = good;
    entries[good.size() - 12] = '\x40';
    expect_bad(entries, Code::data_loss, "64 entries");
  }
  Bytes checksum = zip(arrays_);
  checksum[checksum.find("PK\x01\x02") + 16] = static_cast<char>(checksum[checksum.find("PK\x01\x02") + 16] ^ 1);
  expect_bad(checksum, Code::data_loss, "checksum");
  const auto path = write("arrays.npz", checksum);
  expect_error(Code::data_loss, {"x.npy", "checksum"}, [&] { static_cast<void>(npz_dataset<Tensor>({path}, {"x"})); });
}

TEST_F(Npz, members_that_share_their_bytes_are_refused) {
  Bytes archive = zip({{"a", Bytes(600, 'a')}});
  const std::size_t entry = archive.find("PK\x01\x02");
  const Bytes one = archive.substr(entry, 47);
  const std::size_t end = archive.find("PK\x05\x06");
  archive.insert(end, one);
  const std::size_t moved = end + one.size();
  archive[moved + 8] = archive[moved + 10] = 2;
  archive[moved + 12] = static_cast<char>(2 * one.size());
  expect_error(Code::data_loss, {"overlap"}, [&] { static_cast<void>(input::read_npz(write("bomb", archive))); });
}

class IdxRows : public Files {};

TEST_F(IdxRows, of_two_kinds_of_files_are_zipped) {
  const Bytes image_header("\0\0\x08\x03\0\0\0\x03\0\0\0\x01\0\0\0\x02", 16);
  const Bytes label_header("\0\0\x0b\x01\0\0\0\x03", 8);
  const auto images = write("images", image_header + "abcdef");
  const auto labels = write("labels", label_header + Bytes("\0\x01\0\x02\x01\0", 6));
  const auto more = write("labels.gz", packed(label_header + Bytes("\0\x01\0\x02\x01\0", 6)));
  for (const auto& path : {labels, more}) {
    const auto data = zip(idx_dataset({images}), idx_dataset({path}));
    EXPECT_EQ(data.cardinality(), Cardinality::known(3));
    const auto [image, label] = *data.batch(3).iterate().get_next_as_optional();
    EXPECT_EQ(image.shape(), (Shape{3, 1, 2}));
    EXPECT_EQ(text_of(image), "abcdef");
    EXPECT_EQ(values_of<std::int16_t>(label), (std::vector<std::int16_t>{1, 2, 256}));
  }
  expect_error(Code::data_loss, {"images", "truncated"},
               [&] { static_cast<void>(idx_dataset({write("images", image_header + "abcde")})); });
}

}  // namespace
}  // namespace lockstep
