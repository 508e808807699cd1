// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/safetensors.hpp>

#include "base/check.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/base/error.hpp>

#include <nlohmann/json.hpp>

#include <unistd.h>

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
  const detail::Path unfinished = path + ".unfinished-" + std::to_string(::getpid());
  try {
    // a killed process with the same id may have left this file; open_to_write would not truncate it
    detail::remove_quietly(unfinished);
    File file = File::open_to_write(unfinished);
    file.write_at(0, std::as_bytes(std::span(bytes)));
    for (const detail::TensorEntry& entry : header.tensors) {
      const Tensor tensor = detail::host_tensor(content.tensors.at(entry.name));
      file.write_at(header.data_offset + entry.begin,
                    std::span(static_cast<const std::byte*>(tensor.data()), tensor.byte_count()));
    }
    file.sync();
    detail::put_in_place(unfinished, path);
    const detail::Path folder = detail::Path(path).parent_path();
    detail::sync_directory(folder.empty() ? detail::Path(".") : folder);
  } catch (...) {
    detail::remove_quietly(unfinished);
    throw;
  }
}

}  // namespace lockstep
