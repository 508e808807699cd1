// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "explain/records.hpp"

#include "base/json_reader.hpp"
#include "base/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace explain {
namespace {

using lockstep::detail::printable;
using Json = nlohmann::json;

constexpr int most_threads = 65536;  // ranks of a communicator between threads
constexpr int most_ranks = 1 << 24;  // of a job
constexpr std::size_t most_bytes = std::size_t{1} << 30;

/// A value of a file, with its place for errors.
class Value {
 public:
  Value(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  [[nodiscard]] bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  [[nodiscard]] Value at(const char* key) const {
    if (!json_.is_object()) refuse("an object");
    const auto found = json_.find(key);
    if (found == json_.end()) throw InputError(fmt::format("{}: there is no \"{}\"", place_, key));
    return {*found, place_ + "." + key};
  }
  [[nodiscard]] std::vector<Value> elements() const {
    if (!json_.is_array()) refuse("an array");
    std::vector<Value> values;
    for (std::size_t k = 0; k < json_.size(); ++k) values.emplace_back(json_[k], fmt::format("{}[{}]", place_, k));
    return values;
  }
  /// Escaped for a terminal.
  [[nodiscard]] std::string text() const {
    if (!json_.is_string()) refuse("a string");
    return printable(json_.get<std::string>());
  }
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const bool fits = json_.is_number_unsigned() ? json_.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                 : json_.is_number_integer() && json_.get<std::int64_t>() <= most;
    if (!fits || json_.get<std::int64_t>() < least) refuse(fmt::format("an integer from {} to {}", least, most));
    return json_.get<std::int64_t>();
  }
  [[nodiscard]] int number() const { return static_cast<int>(integer(-1, std::int64_t{1} << 30)); }
  [[nodiscard]] std::int64_t large() const { return integer(-1, std::int64_t{1} << 62); }
  [[nodiscard]] std::uint64_t count() const { return static_cast<std::uint64_t>(integer(0, std::int64_t{1} << 62)); }
  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string found = json_.dump(-1, ' ', false, Json::error_handler_t::replace);
    throw InputError(fmt::format("{}: expected {}, found {}", place_, expected, printable(found.substr(0, 60))));
  }

 private:
  const Json& json_;
  std::string place_;
};

Operation read_operation(const Value& value) {
  Operation operation;
  operation.epoch = value.at("epoch").count();
  operation.sequence = value.at("sequence").large();
  operation.call = value.at("call").text();
  operation.kind = value.at("kind").text();
  operation.state = value.at("state").text();
  operation.posted = value.at("posted_us").large();
  if (value.has("peer")) operation.peer = value.at("peer").number();
  if (value.has("file")) operation.place = fmt::format("{}:{}", value.at("file").text(), value.at("line").number());
  if (const auto states = {"posted", "agreed", "completed", "failed"};
      std::find(states.begin(), states.end(), operation.state) == states.end())
    value.at("state").refuse("\"posted\", \"agreed\", \"completed\" or \"failed\"");
  return operation;
}

Communicator read_communicator(const Value& value) {
  Communicator communicator;
  communicator.name = value.at("name").text();
  communicator.transport = value.at("transport").text();
  communicator.number = value.at("number").count();
  communicator.rank = value.at("rank").number();
  communicator.size = value.at("size").number();
  communicator.posted = value.at("posted").count();
  for (const Value& rank : value.at("job_ranks").elements()) communicator.job_ranks.push_back(rank.number());
  for (const Value& each : value.at("operations").elements()) communicator.operations.push_back(read_operation(each));
  for (const Value& each : value.at("failures").elements())
    communicator.failures.push_back({each.at("epoch").count(), each.at("sequence").large(), each.at("text").text()});
  if (communicator.size < 1) value.at("size").refuse("a positive number");
  if (communicator.rank < 0 || communicator.rank >= communicator.size) value.at("rank").refuse("a rank below the size");
  const std::size_t listed = communicator.job_ranks.size();
  if (listed == 0 && communicator.size > most_threads)
    value.at("size").refuse(fmt::format("a number up to {}", most_threads));
  if (listed != 0 && listed != static_cast<std::size_t>(communicator.size))
    value.at("job_ranks")
        .refuse(fmt::format("{} rank{} or none", communicator.size, communicator.size == 1 ? "" : "s"));
  return communicator;
}

}  // namespace

Record read_record(const std::string& path) {
  lockstep::detail::JsonDocument json;
  try {
    json = lockstep::detail::read_json_file(path, {.bytes = most_bytes});
  } catch (const std::system_error& error) {
    throw InputError(fmt::format("{}: {}", path, error.code().message()));
  } catch (const lockstep::detail::JsonError& error) {
    throw InputError(fmt::format("{}: not a flight record of lockstep: {}", path, error.what()));
  }
  const Value value(*json, path + ": record");
  if (!value.has("lockstep_flight_record")) throw InputError(path + ": not a flight record of lockstep");
  if (const auto version = value.at("lockstep_flight_record").number(); version != 1) {
    throw InputError(fmt::format(
        "{}: a flight record of version {}, but this program reads version 1; use the lockstep-explain of the same "
        "installation",
        path, version));
  }
  Record record;
  record.path = path;
  record.job = value.at("job").text();
  record.rank = value.at("rank").number();
  record.size = value.at("size").number();
  if (record.size > most_ranks) value.at("size").refuse(fmt::format("a number up to {}", most_ranks));
  record.host = value.at("host").text();
  record.reason = value.at("reason").text();
  record.written = value.at("written_us").large();
  for (const Value& each : value.at("communicators").elements())
    record.communicators.push_back(read_communicator(each));
  return record;
}

std::vector<std::string> find_records(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path + ": there is no such file or directory");
  if (!std::filesystem::is_directory(status)) return {path};
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    // merged traces may be in the same directory
    const bool is_json = name.ends_with(".json") && !name.ends_with(".trace.json");
    std::error_code ignored;
    if (name.starts_with("lockstep-") && is_json && entry.is_regular_file(ignored))
      paths.push_back(entry.path().string());
  }
  if (error) throw InputError(fmt::format("{}: {}", path, error.message()));
  if (paths.empty()) throw InputError(path + ": no flight record (lockstep-*.json) in this directory");
  std::sort(paths.begin(), paths.end());
  return paths;
}

Selection select_job(std::vector<Record> records, const std::optional<std::string>& job) {
  // the newest first, so that it is the one that is kept
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return std::tie(b.written, a.path) < std::tie(a.written, b.path); });
  const std::string chosen = job.value_or(records.front().job);
  Selection selection;
  std::set<std::pair<int, std::string>> known;
  for (Record& record : records) {
    if (chosen != "all" && record.job != chosen) {
      std::vector<std::string>& others = selection.others;
      if (std::find(others.begin(), others.end(), record.job) == others.end()) others.push_back(std::move(record.job));
    } else if (known.insert({record.rank, record.rank < 0 ? record.path : ""}).second) {
      selection.records.push_back(std::move(record));
    }
  }
  if (selection.records.empty()) {
    std::string names;
    for (const std::string& name : selection.others) names += (names.empty() ? "" : ", ") + name;
    throw InputError(fmt::format("--job {}: there is no record of this job; there are records of {}", chosen, names));
  }
  std::sort(selection.records.begin(), selection.records.end(),
            [](const auto& a, const auto& b) { return std::tie(a.rank, a.path) < std::tie(b.rank, b.path); });
  return selection;
}

}  // namespace explain
