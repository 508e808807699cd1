// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_writer.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/time_stamp.hpp"
#include "cluster/files.hpp"
#include "cluster/json_text.hpp"
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

OrderedJson header_of(int rank, int size) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count();
  return {{"job", name_of_this_job()},
          {"rank", rank},
          {"size", size},
          {"host", host_name()},
          {"pid", ::getpid()},
          {"clock", name_of_clock()},
          {"wall_offset_ns", wall_ns - read_clock().nanoseconds}};
}

OrderedJson to_json(const MeteredCall& call) {
  return {{"kind", call.kind},   {"call", call.call},         {"name", call.name},  {"place", call.place},
          {"dtype", call.dtype}, {"elements", call.elements}, {"bytes", call.bytes}};
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
  append(TraceRecordType::text, 0, to_text(header_of(rank, size)));
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
    const MeteredGroup& of = meter.group();
    append(TraceRecordType::text, 0,
           to_text({{"group", group.number},
                    {"name", of.name},
                    {"number", of.number},
                    {"job_ranks", of.job_ranks},
                    {"rank", of.rank},
                    {"size", of.size}}));
  }
  meter.drain([&](std::span<const MeteredOperation> part) {
    const std::size_t fits = std::min<std::uint64_t>(part.size(), most_entries - entries_);
    dropped_ += part.size() - fits;
    entries_ += fits;
    if (fits != 0) append(TraceRecordType::operations, group.number, bytes_of(part.first(fits)));
  });
  // the calls of operations are described before these are added, so this finds all of them
  if (const auto calls = meter.new_calls(); !calls.empty()) {
    OrderedJson described = OrderedJson::array();
    for (const MeteredCall& call : calls) described.push_back(to_json(call));
    append(TraceRecordType::text, 0, to_text({{"calls_of", group.number}, {"calls", described}}));
  }
  group.dropped = meter.dropped();
}

void TraceWriter::append_ranges() {
  const TakenRanges taken = take_trace_ranges();
  if (!taken.new_names.empty()) append(TraceRecordType::text, 0, to_text({{"range_names", taken.new_names}}));
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
    append(TraceRecordType::text, 0, to_text({{"dropped", dropped}}));
    flush();
    if (dropped != 0)
      log_warning("LOCKSTEP_TRACE: {} operations and ranges are not in {}: a trace has at most {} of a rank", dropped,
                  path_, most_entries);
  } catch (const std::exception& error) {
    log_warning("LOCKSTEP_TRACE: {}", error.what());
  }
}

}  // namespace lockstep::detail
