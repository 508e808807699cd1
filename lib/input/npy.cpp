// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/npy.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/array_files.hpp"
#include "input/files_node.hpp"
#include "input/zip_archive.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lockstep::input {
namespace {

constexpr std::string_view suffix = ".npy";

std::string_view array_name(const ZipMember& member) noexcept {
  std::string_view name = member.name;
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

Tensor read_member(const ZipArchive& archive, const ZipMember& member) {
  const std::unique_ptr<ByteStream> stream = archive.open(member);
  const ArrayHeader header = parse_npy_header(*stream);
  return read_content(*stream, header);
}

const ZipMember& find_array(const ZipArchive& archive, const std::string& name) {
  const auto found = std::ranges::find(archive.members(), name, array_name);
  if (found != archive.members().end()) return *found;
  std::string there;
  for (const ZipMember& member : archive.members())
    there += (there.empty() ? "" : ", ") + std::string(array_name(member));
  detail::throw_error(Code::invalid_argument, "{} has no array \"{}\"; its arrays are: {}", archive.file()->name(),
                      name, there.empty() ? "none" : there);
}

RowBlock array_block(const ZipArchive& archive, const ZipMember& member) {
  if (member.is_deflated) return block_of(read_member(archive, member), archive.name_of(member));
  archive.check(member);
  return block_of(archive.file(), member.packed, archive.name_of(member), parse_npy_header);
}

void check_lengths(const std::string& path, std::span<const std::string> names,
                   const std::vector<std::vector<RowBlock>>& blocks) {
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (blocks[i].back().rows == blocks[0].back().rows) continue;
    detail::throw_error(
        Code::invalid_argument,
        "npz_dataset: in {} array \"{}\" has {} but \"{}\" has {}; all arrays must have the same number of rows", path,
        names[0], detail::counted(blocks[0].back().rows, "row"), names[i], blocks[i].back().rows);
  }
}

}  // namespace

Tensor read_npy(const std::string& path) { return read_array(path, parse_npy_header); }

std::map<std::string, Tensor> read_npz(const std::string& path) {
  const ZipArchive archive(path);
  std::map<std::string, Tensor> arrays;
  for (const ZipMember& member : archive.members()) {
    arrays.insert_or_assign(std::string(array_name(member)), read_member(archive, member));
  }
  return arrays;
}

Pipeline npy_rows(const FileList& files) { return array_files("npy_dataset", files, parse_npy_header); }

Pipeline npz_rows(const FileList& files, std::span<const std::string> names, std::size_t leaves) {
  check_files("npz_dataset", files);
  if (names.size() != leaves) {
    detail::throw_error(
        Code::invalid_argument,
        "npz_dataset: names has {}, but an element of the dataset has {}; give one name for each tensor",
        detail::counted(names.size(), "array"), detail::counted(leaves, "tensor"));
  }
  std::vector<std::vector<RowBlock>> blocks(names.size());
  for (const std::string& path : files) {
    const ZipArchive archive(path);
    for (std::size_t i = 0; i < names.size(); ++i) {
      blocks[i].push_back(array_block(archive, find_array(archive, names[i])));
    }
    check_lengths(path, names, blocks);
  }
  std::vector<Pipeline> arrays;
  for (std::vector<RowBlock>& of_array : blocks) {
    arrays.push_back(pipeline_of(mapped_rows("npz_dataset", files, std::move(of_array))));
  }
  return Pipeline::zip(arrays);
}

}  // namespace lockstep::input
