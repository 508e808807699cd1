// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/manifest.hpp"

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "base/json_reader.hpp"
#include "base/printable.hpp"

#include <lockstep/base/error.hpp>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

constexpr const char* format_name = "lockstep checkpoint";

/// The checksum of the serialized body. JSON keys are sorted, so equal contents have equal checksums.
std::uint32_t checksum_of(const Json& body) {
  const std::string text = body.dump();
  return crc32c(std::as_bytes(std::span(text)));
}

Json tensors_json(const Manifest& manifest) {
  Json all = Json::object();
  for (const auto& [name, record] : manifest.tensors) {
    all[name] = {{"dtype", std::string(to_string(record.dtype))},
                 {"shape", record.shape},
                 {"synchronization", record.synchronization},
                 {"aggregation", record.aggregation},
                 {"crc32c", record.checksums}};
  }
  return all;
}

Json words_json(const Manifest& manifest) {
  Json all = Json::object();
  for (const auto& [name, record] : manifest.words)
    all[name] = {{"kind", record.kind}, {"common", record.common}, {"of_replica", record.of_replica}};
  return all;
}

/// A value of a manifest that breaks a rule.
struct WrongValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Json::get would cut off what does not fit into the type.
template <std::integral T>
void take(const Json& json, const char* name, T& to) {
  const auto take_if_it_fits = [&](auto number) {
    const bool fits = std::in_range<T>(number);
    if (fits) to = static_cast<T>(number);
    return fits;
  };
  if (json.is_number_unsigned() && take_if_it_fits(json.get<std::uint64_t>())) return;
  if (json.is_number_integer() && !json.is_number_unsigned() && take_if_it_fits(json.get<std::int64_t>())) return;
  throw WrongValue(fmt::format("{} must be an integer from {} to {}, but is {}", name, std::numeric_limits<T>::min(),
                               std::numeric_limits<T>::max(), printable(json.dump().substr(0, 40))));
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
  Json body = {{"format", format_name},
               {"version", Manifest::version},
               {"step", manifest.step},
               {"replicas", manifest.replicas()},
               {"replicas_per_rank", manifest.layout},
               {"file_bytes", manifest.file_bytes},
               {"header_crc32c", manifest.header_checksum},
               {"block_bytes", manifest.block_bytes}};
  body["tensors"] = tensors_json(manifest);
  body["state"] = words_json(manifest);
  const std::uint32_t checksum = checksum_of(body);
  return Json{{"checkpoint", std::move(body)}, {"crc32c", checksum}}.dump(1) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& file) {
  Json json;
  try {
    json = read_json(text);
  } catch (const JsonError& error) {
    throw_error(Code::data_loss, "{}: the file is not a manifest of a lockstep checkpoint, or it is damaged: {}", file,
                error.what());
  }
  if (!json.is_object() || !json.contains("checkpoint") || !json["checkpoint"].is_object() ||
      json["checkpoint"].value("format", Json()) != format_name) {
    throw_error(Code::data_loss, "{}: the file is not a manifest of a lockstep checkpoint, or it is damaged", file);
  }
  const Json& body = json["checkpoint"];
  if (json.value("crc32c", Json()) != checksum_of(body))
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
  } catch (const WrongValue& error) {
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
