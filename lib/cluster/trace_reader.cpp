// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_file.hpp"

#include "base/check.hpp"
#include "base/json_reader.hpp"

#include <lockstep/base/error.hpp>

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

[[noreturn]] void throw_damaged(const std::string& path, std::size_t at, std::string_view what) {
  throw_error(Code::data_loss, "the trace file {} is damaged at byte {}: {}", path, at, what);
}

template <class T>
void append(std::vector<T>& values, std::string_view bytes) {
  const std::size_t before = values.size();
  const std::size_t count = bytes.size() / sizeof(T);
  values.resize(before + count);
  if (count > 0) bytes.copy(reinterpret_cast<char*>(values.data() + before), count * sizeof(T));
}

/// The integer `name` of `object`.
template <std::integral T>
T integer(const Json& object, const char* name) {
  return json_integer<T>(object.at(name), name);
}

void take_header(const Json& json, RankTrace& trace) {
  trace.job = json.at("job");
  trace.rank = integer<int>(json, "rank");
  trace.size = integer<int>(json, "size");
  trace.host = json.at("host");
  trace.pid = integer<long>(json, "pid");
  trace.clock = json.at("clock");
  trace.wall_offset = integer<std::int64_t>(json, "wall_offset_ns");
}

void take_group(const Json& json, RankTrace& trace) {
  MeteredGroup group{json.at("name"),
                     integer<std::uint64_t>(json, "number"),
                     {},
                     integer<int>(json, "rank"),
                     integer<int>(json, "size"),
                     json.value("transport", std::string())};
  for (const Json& rank : json.at("job_ranks").get_ref<const Json::array_t&>())
    group.job_ranks.push_back(json_integer<int>(rank, "job_ranks"));
  trace.groups.emplace_back().group = std::move(group);
}

void take_calls(const Json& json, RankTrace& trace) {
  TracedGroup& group = trace.groups.at(integer<std::size_t>(json, "calls_of"));
  for (const Json& call : json.at("calls")) {
    group.calls.push_back({call.at("kind"), call.at("call"), call.at("name"), call.at("place"), call.at("dtype"),
                           integer<std::int64_t>(call, "elements"), integer<std::int64_t>(call, "bytes")});
  }
}

void take_text(std::string_view text, RankTrace& trace) {
  const JsonDocument document = read_json(text);
  const Json& json = *document;
  if (json.contains("job")) {
    take_header(json, trace);
  } else if (json.contains("group")) {
    take_group(json, trace);
  } else if (json.contains("calls_of")) {
    take_calls(json, trace);
  } else if (json.contains("range_names")) {
    for (const Json& name : json.at("range_names")) trace.range_names.push_back(name);
  } else {
    trace.dropped = integer<std::uint64_t>(json, "dropped");
    trace.has_end = true;
  }
}

void take_record(const TraceRecordHeader& header, std::string_view bytes, RankTrace& trace) {
  switch (header.type) {
    case TraceRecordType::text: return take_text(bytes, trace);
    case TraceRecordType::operations: return append(trace.groups.at(header.group).operations, bytes);
    case TraceRecordType::ranges: return append(trace.ranges, bytes);
    case TraceRecordType::clock: return append(trace.readings, bytes);
  }
  throw_error(Code::data_loss, "unknown type of record {}", static_cast<std::uint32_t>(header.type));
}

}  // namespace

double RankTrace::nanoseconds(std::uint64_t stamp) const {
  const ClockReading& first = readings.front();
  const ClockReading& last = readings.back();
  const double ticks = static_cast<double>(last.stamp) - static_cast<double>(first.stamp);
  // without a sign, since a damaged file has any numbers
  const auto time = static_cast<std::int64_t>(static_cast<std::uint64_t>(last.nanoseconds) -
                                              static_cast<std::uint64_t>(first.nanoseconds));
  const double rate = ticks > 0 ? static_cast<double>(time) / ticks : 1;
  // as integers first: a double cannot hold nanoseconds since the boot of the host together with a part
  const auto since = static_cast<std::int64_t>(stamp - first.stamp);
  return static_cast<double>(first.nanoseconds) + static_cast<double>(since) * rate;
}

RankTrace read_trace_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw_error(Code::unavailable, "cannot read the trace file {}", path);
  if (!std::string_view(all).starts_with(trace_magic)) throw_damaged(path, 0, "it does not begin like a trace file");
  RankTrace trace;
  trace.path = path;
  for (std::size_t at = trace_magic.size(); all.size() - at >= sizeof(TraceRecordHeader);) {
    TraceRecordHeader header;
    std::memcpy(&header, all.data() + at, sizeof header);
    const std::size_t begin = at + sizeof header;
    if (header.bytes > all.size() - begin) break;  // the rank was killed, or still runs
    try {
      take_record(header, std::string_view(all).substr(begin, header.bytes), trace);
    } catch (const std::exception& error) {
      throw_damaged(path, at, error.what());
    }
    at = begin + header.bytes;
  }
  if (trace.job.empty() || trace.readings.empty()) throw_damaged(path, all.size(), "it has no header");
  return trace;
}

}  // namespace lockstep::detail
