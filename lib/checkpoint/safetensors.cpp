// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/safetensors.hpp>

#include "base/check.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/base/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace lockstep {

using detail::File;

SafetensorsFile load_safetensors(const std::string& path) {
  const std::string label = "load_safetensors: " + path;
  const File file = File::open_to_read(path);
  const std::uint64_t size = file.size();
  std::string bytes(std::min<std::uint64_t>(size, 8), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  std::string text(static_cast<std::size_t>(detail::header_length(bytes, size, label)), '\0');
  file.read_at(8, std::as_writable_bytes(std::span(text)));
  detail::SafetensorsHeader header = detail::parse_header(text, size, label);
  SafetensorsFile result;
  for (const detail::TensorEntry& entry : header.tensors) {
    Tensor tensor = Tensor::uninitialized(entry.dtype, entry.shape);
    const std::span<std::byte> elements(static_cast<std::byte*>(tensor.data()), tensor.byte_count());
    file.read_at(header.data_offset + entry.begin, elements);
    detail::check_elements(elements, entry, label);
    result.tensors.emplace(entry.name, std::move(tensor));
  }
  result.metadata = std::move(header.metadata);
  return result;
}

void save_safetensors(const std::string& path, const SafetensorsFile& content) {
  detail::SafetensorsHeader header;
  header.metadata = content.metadata;
  for (const auto& [name, tensor] : content.tensors)
    header.tensors.push_back({name, tensor.dtype(), tensor.shape(), 0, 0});
  std::string bytes;
  try {
    bytes = detail::format_header(header);
  } catch (const nlohmann::json::exception&) {
    detail::throw_error(Code::invalid_argument,
                        "save_safetensors: {}: the name of a tensor or a text of the metadata is not valid UTF-8",
                        path);
  }
  try {
    detail::FileReplacement file(path);
    file.write(bytes);
    for (const detail::TensorEntry& entry : header.tensors) {  // in the order of the file, without gaps
      const Tensor tensor = detail::host_tensor(content.tensors.at(entry.name));
      file.write({static_cast<const char*>(tensor.data()), tensor.byte_count()});
    }
    file.finish(detail::Durability::disk);
  } catch (const detail::FileError& error) {
    detail::throw_system_error(error, path);
  }
}

}  // namespace lockstep
