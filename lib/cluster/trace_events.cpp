// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The trace as JSON, in the "Trace Event Format" of Chrome, which Perfetto reads: a process for each rank, a thread for
// each communicator and for each thread that has ranges.

#include "cluster/trace_merge.hpp"

#include "base/json_writer.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace lockstep::detail {
namespace {

/// Threads of ranges have numbers from here on, those of communicators from 1.
constexpr std::size_t first_range_thread = 100'000;

/// Times are microseconds with three decimals.
double us(double nanoseconds) { return nanoseconds / 1000; }

class EventWriter {
 public:
  EventWriter(const JobTrace& trace, const std::function<void(std::string_view)>& write)
      : trace_(trace), write_(write) {}

  void write_all() {
    buffer_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) write_names(rank);
    for (const TimedOperation& each : trace_.operations)
      each.is_message() ? write_message(each) : write_operation(each);
    for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) write_ranges(rank);
    for (std::size_t id = 0; id < trace_.matches.size(); ++id) write_flow(id);
    buffer_ += "\n]}\n";
    write_(buffer_);
  }

 private:
  template <class... Args>
  void event(fmt::format_string<Args...> text, Args&&... args) {
    if (is_first_) {
      is_first_ = false;
    } else {
      buffer_ += ",\n";
    }
    fmt::format_to(std::back_inserter(buffer_), text, std::forward<Args>(args)...);
    if (buffer_.size() < std::size_t{1} << 20) return;
    write_(buffer_);
    buffer_.clear();
  }

  [[nodiscard]] static std::string name_of(const MeteredGroup& group) {
    return group.transport.empty() ? group.name : fmt::format("{} ({})", group.name, group.transport);
  }

  void name_thread(int rank, std::size_t thread, const std::string& name) {
    event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", rank, thread,
          json_string(name));
    event(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", rank, thread,
          thread);
  }

  void write_names(std::size_t index) {
    const RankTrace& rank = trace_.ranks[index];
    event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", rank.rank,
          json_string(fmt::format("rank {} ({}, pid {})", rank.rank, rank.host, rank.pid)));
    event(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", rank.rank, rank.rank);
    for (std::size_t group = 0; group < rank.groups.size(); ++group)
      name_thread(rank.rank, group + 1, "operations of " + name_of(rank.groups[group].group));
    std::set<std::uint32_t> named;  // a damaged file may have any numbers
    for (const CompleteRange& range : rank.ranges) {
      if (!named.insert(range.thread).second) continue;
      name_thread(rank.rank, first_range_thread + range.thread, fmt::format("thread {}", range.thread));
    }
  }

  [[nodiscard]] std::string arguments_of(const TimedOperation& each) const {
    const MeteredCall& call = *each.call;
    std::string text = fmt::format(
        R"("call":{},"communicator":{},"epoch":{},"sequence":{},"name":{},"dtype":{},"elements":{},"bytes":{},"place":{})",
        json_string(call.call), json_string(trace_.ranks[each.rank].groups[each.group].group.name),
        each.operation->epoch, each.operation->sequence, json_string(call.name), json_string(call.dtype), call.elements,
        call.bytes, json_string(call.place));
    if (each.begin > each.posted) text += fmt::format(R"(,"queued_us":{:.3f})", us(each.begin - each.posted));
    if (each.last_rank >= 0)
      text += fmt::format(R"(,"last_rank":{},"lateness_us":{:.3f})", each.last_rank, us(each.lateness));
    if (each.operation->failure != 0)
      text += fmt::format(R"(,"result":"{}")", to_string(static_cast<Code>(each.operation->failure - 1)));
    return text;
  }

  [[nodiscard]] static const std::string& name_of(const TimedOperation& each) {
    return each.call->name.empty() ? each.call->kind : each.call->name;
  }

  void write_phase(const TimedOperation& each, const std::string& name, double begin, double end) {
    if (end <= begin) return;
    event(R"({{"ph":"X","cat":"phase","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})", json_string(name),
          trace_.rank_of(each), each.group + 1, us(begin), us(end) - us(begin));
  }

  void write_operation(const TimedOperation& each) {
    event(R"({{"ph":"X","cat":"operation","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
          json_string(name_of(each)), trace_.rank_of(each), each.group + 1, us(each.begin),
          us(each.end) - us(each.begin), arguments_of(each));
    const bool is_last = each.last_rank < 0 || each.last_rank == trace_.rank_of(each);
    write_phase(each, is_last ? "wait" : fmt::format("wait for rank {}", each.last_rank), each.begin, each.agreed);
    write_phase(each, is_reduction(each) ? "reduce" : "move data", each.agreed, each.end);
  }

  [[nodiscard]] static bool is_reduction(const TimedOperation& each) {
    return each.call->kind.find("reduce") != std::string::npos;
  }

  /// Messages overlap, so they are asynchronous events.
  void write_message(const TimedOperation& each) {
    const int peer = each.operation->peer;
    const std::string name = fmt::format("{} rank {}", peer % 2 != 0 ? "recv from" : "send to", peer / 2);
    const std::size_t id = ++messages_;
    event(R"({{"ph":"b","cat":"message","name":"{}","id":{},"pid":{},"tid":{},"ts":{:.3f},"args":{{{}}}}})", name, id,
          trace_.rank_of(each), each.group + 1, us(each.begin), arguments_of(each));
    event(R"({{"ph":"e","cat":"message","name":"{}","id":{},"pid":{},"tid":{},"ts":{:.3f}}})", name, id,
          trace_.rank_of(each), each.group + 1, us(each.end));
  }

  void write_ranges(std::size_t rank) {
    const RankTrace& of = trace_.ranks[rank];
    for (std::size_t k = 0; k < of.ranges.size(); ++k) {
      const CompleteRange& range = of.ranges[k];
      const Interval& time = trace_.ranges[rank][k];
      event(R"({{"ph":"X","cat":"range","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
            range.name < of.range_names.size() ? json_string(of.range_names[range.name]) : "\"range\"", of.rank,
            first_range_thread + range.thread, us(time.begin), us(time.end) - us(time.begin));
    }
  }

  /// From the rank that arrived first, over the others in the order of their arrival, to the last.
  void write_flow(std::size_t id) {
    const std::vector<std::size_t>& match = trace_.matches[id];
    for (std::size_t k = 0; k < match.size(); ++k) {
      const TimedOperation& each = trace_.operations[match[k]];
      const std::string_view phase = k == 0 ? "s" : k + 1 == match.size() ? "f" : "t";
      event(R"({{"ph":"{}","cat":"operation","name":{},"id":{},"pid":{},"tid":{},"ts":{:.3f}{}}})", phase,
            json_string(name_of(each)), id + 1, trace_.rank_of(each), each.group + 1, us(each.begin),
            phase == "f" ? R"(,"bp":"e")" : "");
    }
  }

  const JobTrace& trace_;
  const std::function<void(std::string_view)>& write_;
  std::string buffer_;
  bool is_first_ = true;
  std::size_t messages_ = 0;
};

}  // namespace

void write_events(const JobTrace& trace, const std::function<void(std::string_view)>& write) {
  EventWriter(trace, write).write_all();
}

}  // namespace lockstep::detail
