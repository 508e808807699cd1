// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/manifest.hpp"

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "base/json_reader.hpp"
#include "base/json_writer.hpp"
#include "base/printable.hpp"

#include <lockstep/base/error.hpp>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <numeric>
#include <span>
#include <utility>

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

constexpr const char* format_name = "lockstep checkpoint";

/// The checksum of the body on one line, with sorted names: equal contents have equal checksums.
std::uint32_t checksum_of(const std::string& body) { return crc32c(std::as_bytes(std::span(body))); }

void write_body(JsonWriter& json, const Manifest& manifest) {
  json.begin_object()
      .member("block_bytes", manifest.block_bytes)
      .member("file_bytes", manifest.file_bytes)
      .member("format", format_name)
      .member("header_crc32c", manifest.header_checksum)
      .member("replicas", manifest.replicas())
      .member("replicas_per_rank", manifest.layout)
      .name("state")
      .begin_object();
  for (const auto& [name, record] : manifest.words) {
    json.name(name)
        .begin_object()
        .member("common", record.common)
        .member("kind", record.kind)
        .member("of_replica", record.of_replica)
        .end_object();
  }
  json.end_object().member("step", manifest.step).name("tensors").begin_object();
  for (const auto& [name, record] : manifest.tensors) {
    json.name(name)
        .begin_object()
        .member("aggregation", record.aggregation)
        .member("crc32c", record.checksums)
        .member("dtype", to_string(record.dtype))
        .member("shape", record.shape)
        .member("synchronization", record.synchronization)
        .end_object();
  }
  json.end_object().member("version", Manifest::version).end_object();
}

bool has_body(const Json& json) {
  const auto body = json.find("checkpoint");
  if (body == json.end() || !body->is_object()) return false;
  const auto format = body->find("format");
  // `*format == format_name` would make a value of the name, and end the process if there is no memory for it
  return format != body->end() && format->is_string() && format->get_ref<const std::string&>() == format_name;
}

template <std::integral T>
void take(const Json& json, const char* name, T& to) {
  to = json_integer<T>(json, name);
}
template <std::integral T>
void take(const Json& json, const char* name, std::vector<T>& to) {
  for (const Json& each : json.get_ref<const Json::array_t&>()) take(each, name, to.emplace_back());
}
template <class T>
void take_member(const Json& object, const char* name, T& to) {
  take(object.at(name), name, to);
}

Manifest manifest_of(const Json& body) {
  Manifest manifest;
  take_member(body, "step", manifest.step);
  take_member(body, "replicas_per_rank", manifest.layout);
  take_member(body, "file_bytes", manifest.file_bytes);
  take_member(body, "header_crc32c", manifest.header_checksum);
  take_member(body, "block_bytes", manifest.block_bytes);
  for (const auto& [name, json] : body.at("tensors").items()) {
    Manifest::TensorRecord& record = manifest.tensors[name];
    record.dtype = parse_dtype(json.at("dtype").get<std::string>());
    take_member(json, "shape", record.shape);
    json.at("synchronization").get_to(record.synchronization);
    json.at("aggregation").get_to(record.aggregation);
    take_member(json, "crc32c", record.checksums);
  }
  for (const auto& [name, json] : body.at("state").items()) {
    Manifest::WordsRecord& record = manifest.words[name];
    json.at("kind").get_to(record.kind);
    take_member(json, "common", record.common);
    take_member(json, "of_replica", record.of_replica);
  }
  return manifest;
}

}  // namespace

int Manifest::replicas() const noexcept { return std::accumulate(layout.begin(), layout.end(), 0); }

std::string to_text(const Manifest& manifest) {
  JsonWriter body;
  write_body(body, manifest);
  JsonWriter json(JsonWriter::Form::indented);
  json.begin_object().name("checkpoint");
  write_body(json, manifest);
  return json.member("crc32c", checksum_of(body.take())).end_object().take() + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& file) {
  JsonDocument document;
  try {
    document = read_json(text);
  } catch (const JsonError& error) {
    throw_error(Code::data_loss, "{}: the file is not a manifest of a lockstep checkpoint, or it is damaged: {}", file,
                error.what());
  }
  const Json& json = *document;
  if (!has_body(json)) {
    throw_error(Code::data_loss, "{}: the file is not a manifest of a lockstep checkpoint, or it is damaged", file);
  }
  const Json& body = json.at("checkpoint");
  if (const auto checksum = json.find("crc32c"); checksum == json.end() || *checksum != checksum_of(body.dump()))
    throw_error(Code::data_loss, "{}: the checksum of this file is wrong; the file is damaged", file);
  try {
    int version = 0;
    take_member(body, "version", version);
    if (version > Manifest::version) {
      throw_error(Code::unimplemented,
                  "{}: the manifest has format version {}; this version of lockstep reads versions up to {}", file,
                  version, Manifest::version);
    }
    return manifest_of(body);
  } catch (const Json::exception& error) {
    throw_error(Code::data_loss, "{}: the file is damaged: {}", file, error.what());
  } catch (const JsonValueError& error) {
    throw_error(Code::data_loss, "{}: the file is damaged: {}", file, error.what());
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument) throw;
    throw_error(Code::data_loss, "{}: the file is damaged: {}", file, printable(error.text()));  // a dtype
  }
}

std::vector<FileBlock> file_blocks(const SafetensorsHeader& header, std::uint64_t bytes_each, int writers) {
  std::vector<FileBlock> blocks;
  for (std::size_t k = 0; k < header.tensors.size(); ++k) {
    const TensorEntry& tensor = header.tensors[k];
    for (std::uint64_t offset = 0; offset < tensor.byte_count(); offset += bytes_each) {
      const std::uint64_t bytes = std::min(bytes_each, tensor.byte_count() - offset);
      // The middle of a block determines the rank that writes it. If the first byte determined it, a rounding error
      // could assign the first block of a rank to the rank below.
      const std::uint64_t middle = tensor.begin + offset + bytes / 2;
      const double place = static_cast<double>(middle);
      const double share = place / static_cast<double>(header.data_bytes);
      blocks.push_back({k, offset, bytes, std::min(static_cast<int>(share * writers), writers - 1)});
    }
  }
  return blocks;
}

}  // namespace lockstep::detail
