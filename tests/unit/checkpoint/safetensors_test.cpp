// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/safetensors.hpp>

#include "base/crc32c.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "support/expect_error.hpp"
#include "support/size_limit.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A file with the given header, followed by the given number of zero bytes.
std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return bytes + json + std::string(data_bytes, '\0');
}

TEST(Crc32c, is_the_castagnoli_polynomial_by_instruction_and_by_table) {
  EXPECT_EQ(detail::crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(detail::crc32c({}), 0U);
  std::string text(1000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 251);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    const auto part = bytes_of(text).subspan(begin, 900 + begin);
    EXPECT_EQ(detail::crc32c(part), detail::crc32c_by_table(part));
  }
}

TEST(Safetensors, preserves_every_element_type) {
  const TemporaryDirectory directory;
  SafetensorsFile content;
  content.metadata = {{"origin", "a test"}};
  for (int k = 0; k < dtype_count; ++k) {
    const auto dtype = static_cast<DType>(k);
    Tensor tensor(dtype, Shape{2, 3});
    auto* const bytes = static_cast<unsigned char*>(tensor.data());
    for (std::size_t i = 0; i < tensor.byte_count(); ++i)
      bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 2 : i + static_cast<std::size_t>(k));
    content.tensors.emplace(std::string(to_string(dtype)), tensor);
  }
  content.tensors.emplace("scalar", Tensor::scalar(2.5));
  content.tensors.emplace("empty", Tensor(DType::f32, Shape{0, 4}));
  save_safetensors(directory.path() / "x.safetensors", content);

  const SafetensorsFile loaded = load_safetensors(directory.path() / "x.safetensors");
  EXPECT_EQ(loaded.metadata, content.metadata);
  ASSERT_EQ(loaded.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    const Tensor& other = loaded.tensors.at(name);
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(other.shape(), tensor.shape()) << name;
    if (tensor.byte_count() == 0) continue;
    EXPECT_EQ(std::memcmp(other.data(), tensor.data(), tensor.byte_count()), 0) << name;
  }
  EXPECT_EQ(files_in(directory.path()), std::vector<std::string>{"x.safetensors"}) << "nothing else is left";
}

TEST(Safetensors, places_tensors_aligned_to_their_elements) {
  detail::SafetensorsHeader header;
  header.tensors = {
      {"a", DType::u8, Shape{3}, 0, 0}, {"b", DType::f64, Shape{2}, 0, 0}, {"c", DType::f16, Shape{1}, 0, 0}};
  const std::string bytes = detail::format_header(header);
  EXPECT_EQ(bytes.size() % 64, 0U);
  EXPECT_EQ(header.data_offset, bytes.size());
  for (const auto& tensor : header.tensors) EXPECT_EQ(tensor.begin % size_of(tensor.dtype), 0U);
  const auto again = detail::parse_header(std::string_view(bytes).substr(8), bytes.size() + 21, "x");
  EXPECT_EQ(again.tensors.front().name, "b");
  EXPECT_EQ(again.data_bytes, 21U);
}

TEST(Safetensors, reads_files_of_other_writers) {
  const TemporaryDirectory directory;
  // no padding, tensors not in the order of their bytes, metadata
  directory.write("x", file_of(R"({"b":{"dtype":"I16","shape":[],"data_offsets":[4,6]},"__metadata__":{"format":"pt"},)"
                               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                               6));
  const SafetensorsFile file = load_safetensors(directory.path() / "x");
  EXPECT_EQ(file.tensors.at("a").shape(), Shape{1});
  EXPECT_EQ(file.tensors.at("b").dtype(), DType::i16);
  EXPECT_EQ(file.metadata.at("format"), "pt");
}

TEST(Safetensors, refuses_other_files_with_the_reason) {
  const TemporaryDirectory directory;
  const auto refuses = [&](Code code, const std::string& content, const std::string& part) {
    directory.write("x", content);
    expect_error(code, {"x", part}, [&] { static_cast<void>(load_safetensors(directory.path() / "x")); });
  };
  const auto json = [](const std::string& tensor) { return R"({"t":)" + tensor + "}"; };
  refuses(Code::data_loss, "", "too few");
  refuses(Code::data_loss, "PK\3\4", "too few");
  refuses(Code::data_loss, "some text that is not such a file", "header");
  refuses(Code::data_loss, file_of("not json", 0), "not a JSON object");
  refuses(Code::data_loss, file_of("[1]", 0), "not a JSON object");
  refuses(Code::data_loss, file_of(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{}})", 4),
          "not a JSON object");
  refuses(Code::data_loss, file_of(json("7"), 0), "\"t\"");
  refuses(Code::data_loss, file_of(json(R"({"shape":[1],"data_offsets":[0,4]})"), 4), "no dtype");
  refuses(Code::unimplemented, file_of(json(R"({"dtype":"F8_E5M2","shape":[4],"data_offsets":[0,4]})"), 4), "F8_E5M2");
  refuses(Code::unimplemented, file_of(json(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})"), 1),
          "9 axes");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","data_offsets":[0,4]})"), 4), "no shape");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), 4), "no shape");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"), 4),
          "extent");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]})"), 4),
          "too many elements");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[1]})"), 4), "no byte range");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), 4), "no byte range");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), 4), "truncated");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), 4), "f32[2]");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), 8), "begins at byte 4");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), 5), "the file has 5");
  refuses(Code::data_loss, file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__");
  refuses(Code::data_loss, file_of(json(R"({"dtype":"BOOL","shape":[3],"data_offsets":[0,3]})"), 1) + "\1\2",
          "an element with the value 2");
  refuses(Code::data_loss, file_of(R"({"t":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}", 0),
          "with unique names: more than 64 levels of nesting at byte 69");
  refuses(Code::data_loss, file_of(R"({"t":1e999})", 0), "the number 1e999 at byte 6 is out of range");
  refuses(Code::data_loss, file_of(R"({"t\u001b[2J":{"dtype":"F32"}})", 0), "tensor \"t\\x1b[2J\" has no shape");
  refuses(Code::unimplemented, file_of(json(R"({"dtype":"F\u001b"})"), 0), "type \"F\\x1b\"");
  expect_error(Code::invalid_argument, {"nothing-there", "No such file"},
               [&] { static_cast<void>(load_safetensors(directory.path() / "nothing-there")); });
  expect_error(Code::invalid_argument, {"regular file"},
               [&] { static_cast<void>(load_safetensors(directory.path())); });
}

TEST(Safetensors, keeps_the_old_file_when_a_new_one_cannot_be_written) {
  const TemporaryDirectory directory;
  directory.write("x", "old");
  SafetensorsFile content;
  content.tensors.emplace("\xff", Tensor::scalar(1.0F));
  expect_error(Code::invalid_argument, {"x", "UTF-8"}, [&] { save_safetensors(directory.path() / "x", content); });
  expect_error(Code::invalid_argument, {"nowhere"}, [&] { save_safetensors("/nowhere/at/all", {}); });
  EXPECT_EQ(directory.read("x"), "old");
  EXPECT_EQ(files_in(directory.path()), std::vector<std::string>{"x"});
}

TEST(Safetensors, replaces_a_link_and_keeps_what_it_points_to) {
  const TemporaryDirectory directory;
  directory.write("victim", "precious");
  std::filesystem::create_symlink(directory.path() / "victim", directory.path() / "x");
  SafetensorsFile content;
  content.tensors.emplace("t", Tensor::scalar(1.0F));
  save_safetensors(directory.path() / "x", content);
  EXPECT_EQ(directory.read("victim"), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(directory.path() / "x"));
  EXPECT_EQ(load_safetensors(directory.path() / "x").tensors.at("t").elements<float>()[0], 1.0F);
}

TEST(Safetensors, keeps_the_old_file_without_space) {
  const TemporaryDirectory directory;
  directory.write("x", "old");
  SafetensorsFile content;
  content.tensors.emplace("t", Tensor::from(std::vector<float>(1000, 1.0F)));
  {
    const SizeLimit limit(2000);
    expect_error(Code::unavailable, {"cannot write " + (directory.path() / "x").string() + ": File too large"},
                 [&] { save_safetensors(directory.path() / "x", content); });
  }
  EXPECT_EQ(directory.read("x"), "old");
  EXPECT_EQ(files_in(directory.path()), std::vector<std::string>{"x"});
}

TEST(Blocks, cover_each_tensor_once_and_divide_the_bytes_evenly) {
  detail::SafetensorsHeader header;
  header.tensors = {
      {"a", DType::u8, Shape{1000}, 0, 0}, {"b", DType::u8, Shape{0}, 0, 0}, {"c", DType::u8, Shape{77}, 0, 0}};
  static_cast<void>(detail::format_header(header));
  for (const int writers : {1, 2, 3, 7}) {
    std::vector<std::uint64_t> of_writer(static_cast<std::size_t>(writers));
    std::uint64_t next = 0;
    for (const auto& block : detail::file_blocks(header, 16, writers)) {
      EXPECT_EQ(header.tensors[block.tensor].begin + block.offset, next);
      next += block.bytes;
      of_writer.at(static_cast<std::size_t>(block.writer)) += block.bytes;
    }
    EXPECT_EQ(next, 1077U);
    for (const std::uint64_t bytes : of_writer)
      EXPECT_NEAR(static_cast<double>(bytes), 1077.0 / writers, 17) << writers;
  }
}

/// Its checksum is one of the text with sorted names, which readers make of the values.
TEST(Manifest, has_sorted_names_and_escapes_them_as_its_reader_does) {
  detail::Manifest manifest;
  manifest.layout = {1};
  manifest.tensors["b\n\"\x7f\xc3\xa9"] = {DType::f32, {}, "on_write", "mean", {}};
  manifest.tensors["a"] = {DType::f32, {1}, "on_write", "mean", {1}};
  manifest.words["random"] = {"generator", {1}, {}};
  const std::string text = detail::to_text(manifest);
  EXPECT_EQ(nlohmann::json::parse(text).dump(1) + "\n", text);
  EXPECT_EQ(detail::to_text(detail::parse_manifest(text, "m")), text);
}

TEST(Manifest, is_preserved_and_detects_damage) {
  detail::Manifest manifest;
  manifest.step = 12;
  manifest.layout = {2, 1};
  manifest.file_bytes = 100;
  manifest.block_bytes = 8;
  manifest.tensors["w"] = {DType::bf16, {2, 3}, "on_write", "mean", {1, 0xffffffffU}};
  manifest.words["random"] = {"generator", {~std::uint64_t{0}}, {1, 2, 3}};
  const std::string text = detail::to_text(manifest);
  const auto again = detail::parse_manifest(text, "m");
  EXPECT_EQ(again.replicas(), 3);
  EXPECT_EQ(again.tensors.at("w").checksums, manifest.tensors.at("w").checksums);
  EXPECT_EQ(again.words.at("random").common, manifest.words.at("random").common);
  EXPECT_EQ(detail::to_text(again), text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    try {
      EXPECT_EQ(detail::to_text(detail::parse_manifest(flipped, "m")), text) << "bit of byte " << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss) << error.what();
    }
    if (i % 7 == 0)
      expect_error(Code::data_loss, {"m"}, [&] { static_cast<void>(detail::parse_manifest(text.substr(0, i), "m")); });
  }
}

TEST(Manifest, with_a_right_checksum_and_a_wrong_value_is_refused_with_the_rule) {
  const auto parse = [](const std::string& step, const std::string& layout, const std::string& tensors) {
    // as the checksum sees it: names are sorted
    const std::string body =
        R"({"block_bytes":8,"file_bytes":100,"format":"lockstep checkpoint","header_crc32c":0,"replicas_per_rank":)" +
        layout + R"(,"state":{},"step":)" + step + R"(,"tensors":)" + tensors + R"(,"version":1})";
    return detail::parse_manifest(
        R"({"checkpoint":)" + body + R"(,"crc32c":)" + std::to_string(detail::crc32c(bytes_of(body))) + "}", "m");
  };
  EXPECT_EQ(parse("-1", "[2]", "{}").step, -1);
  const auto refuses = [&](const std::string& part, const std::string& step, const std::string& layout,
                           const std::string& tensors) {
    expect_error(Code::data_loss, {"m: the file is damaged: " + part},
                 [&] { static_cast<void>(parse(step, layout, tensors)); });
  };
  refuses("step must be an integer from -9223372036854775808 to 9223372036854775807, but is 1e+300", "1e+300", "[1]",
          "{}");
  refuses("step must be an integer from -9223372036854775808 to 9223372036854775807, but is 18446744073709551615",
          "18446744073709551615", "[1]", "{}");
  refuses("replicas_per_rank must be an integer from -2147483648 to 2147483647, but is 4294967296", "1",
          "[1,4294967296]", "{}");
  refuses("replicas_per_rank must be an integer from -2147483648 to 2147483647, but is \"\\xc2\\x9b\"", "1",
          "[\"\xc2\x9b\"]", "{}");
  refuses("", "1", "[1]", R"({"w":{"dtype":"f\u001b3"}})");
}

}  // namespace
}  // namespace lockstep::test
