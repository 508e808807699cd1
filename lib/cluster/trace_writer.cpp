// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_writer.hpp"

#include "base/check.hpp"
#include "base/json_writer.hpp"
#include "base/log.hpp"
#include "base/time_stamp.hpp"
#include "cluster/files.hpp"
#include "cluster/launcher.hpp"
#include "cluster/trace_ranges.hpp"

#include <lockstep/base/error.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <span>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::int64_t idle_interval_ns = 1'000'000'000;  // the longest time between two clock readings of a file

/// A text that is the same for all processes that share CLOCK_MONOTONIC: the number of this boot of the kernel.
std::string name_of_clock() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  return file >> name ? name : host_name();
}

ClockReading read_clock() noexcept {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return {time_stamp(), std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()};
}

std::string header_of(int rank, int size) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count();
  return JsonWriter()
      .begin_object()
      .member("job", name_of_this_job())
      .member("rank", rank)
      .member("size", size)
      .member("host", host_name())
      .member("pid", ::getpid())
      .member("clock", name_of_clock())
      .member("wall_offset_ns", wall_ns - read_clock().nanoseconds)
      .end_object()
      .take();
}

std::string to_json(std::uint32_t number, const MeteredGroup& group) {
  return JsonWriter()
      .begin_object()
      .member("group", number)
      .member("name", group.name)
      .member("number", group.number)
      .member("job_ranks", group.job_ranks)
      .member("rank", group.rank)
      .member("size", group.size)
      .member("transport", group.transport)
      .end_object()
      .take();
}

std::string to_json(std::uint32_t group, std::span<const MeteredCall> calls) {
  JsonWriter json;
  json.begin_object().member("calls_of", group).name("calls").begin_array();
  for (const MeteredCall& call : calls) {
    json.begin_object()
        .member("kind", call.kind)
        .member("call", call.call)
        .member("name", call.name)
        .member("place", call.place)
        .member("dtype", call.dtype)
        .member("elements", call.elements)
        .member("bytes", call.bytes)
        .end_object();
  }
  return json.end_array().end_object().take();
}

/// An object with one member.
template <class T>
std::string to_json(std::string_view name, const T& value) {
  return JsonWriter().begin_object().member(name, value).end_object().take();
}

template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string open_path(const std::string& directory, int rank) {
  ::mkdir(directory.c_str(), 0777);  // if this fails, opening the file reports an error
  return directory + "/" + trace_prefix(name_of_this_job()) + std::to_string(rank) + std::string(trace_suffix);
}

}  // namespace

std::string trace_prefix(const std::string& job) { return "lockstep-" + job + "-rank"; }

TraceWriter::TraceWriter(const std::string& directory, int rank, int size) : path_(open_path(directory, rank)) {
  try {
    file_ = OutputFile::create(path_);
  } catch (const FileError& error) {
    throw_error(Code::invalid_argument, "LOCKSTEP_TRACE=\"{}\": the file {} cannot be written: {}", directory, path_,
                error.what());
  }
  buffer_ = trace_magic;
  append(TraceRecordType::text, 0, header_of(rank, size));
  append_clock();
}

void TraceWriter::append(TraceRecordType type, std::uint32_t group, std::string_view bytes) {
  const TraceRecordHeader header{type, group, bytes.size()};
  buffer_ += bytes_of(std::span(&header, 1));
  buffer_ += bytes;
}

void TraceWriter::append_clock() {
  const ClockReading reading = read_clock();
  append(TraceRecordType::clock, 0, bytes_of(std::span(&reading, 1)));
  last_clock_ns_ = reading.nanoseconds;
}

void TraceWriter::append_meter(OperationMeter& meter) {
  const auto [entry, is_new] = groups_.try_emplace(&meter);
  Group& group = entry->second;
  if (is_new) {
    group.number = next_group_++;
    append(TraceRecordType::text, 0, to_json(group.number, meter.group()));
  }
  meter.drain([&](std::span<const MeteredOperation> part) {
    const std::size_t fits = std::min<std::uint64_t>(part.size(), most_entries - entries_);
    dropped_ += part.size() - fits;
    entries_ += fits;
    if (fits != 0) append(TraceRecordType::operations, group.number, bytes_of(part.first(fits)));
  });
  // the calls of operations are described before these are added, so this finds all of them
  if (const auto calls = meter.new_calls(); !calls.empty())
    append(TraceRecordType::text, 0, to_json(group.number, calls));
  group.dropped = meter.dropped();
}

void TraceWriter::append_ranges() {
  const TakenRanges taken = take_trace_ranges();
  if (!taken.new_names.empty()) append(TraceRecordType::text, 0, to_json("range_names", taken.new_names));
  const std::size_t fits = std::min<std::uint64_t>(taken.ranges.size(), most_entries - entries_);
  dropped_ += taken.ranges.size() - fits;
  entries_ += fits;
  if (fits != 0) append(TraceRecordType::ranges, 0, bytes_of(std::span(taken.ranges).first(fits)));
  dropped_ranges_ = taken.dropped;
}

void TraceWriter::flush() {
  try {
    file_.write(buffer_);
    buffer_.clear();  // keeps its memory
  } catch (const FileError& error) {
    buffer_.clear();
    throw_error(Code::unavailable, "cannot write the trace file {}: {}", path_, error.what());
  }
}

void TraceWriter::write() {
  meters_of_this_process(meters_);
  for (const auto& meter : meters_) append_meter(*meter);
  append_ranges();
  if (!buffer_.empty() || read_clock().nanoseconds - last_clock_ns_ >= idle_interval_ns) {
    append_clock();
    flush();
  }
  for (const auto& meter : meters_) {
    if (meter.use_count() > 1) continue;  // only this object still has it: its communicator was destroyed
    dropped_ += meter->dropped();
    groups_.erase(meter.get());
  }
  meters_.clear();
}

void TraceWriter::end() noexcept {
  try {
    std::uint64_t dropped = dropped_ + dropped_ranges_;
    for (const auto& [meter, group] : groups_) dropped += group.dropped;
    append_clock();
    append(TraceRecordType::text, 0, to_json("dropped", dropped));
    flush();
    if (dropped != 0)
      log_warning("LOCKSTEP_TRACE: {} operations and ranges are not in {}: a trace has at most {} of a rank", dropped,
                  path_, most_entries);
  } catch (const std::exception& error) {
    log_warning("LOCKSTEP_TRACE: {}", error.what());
  }
}

}  // namespace lockstep::detail
