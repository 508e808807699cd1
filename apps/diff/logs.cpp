// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "diff/logs.hpp"

#include "base/json_reader.hpp"
#include "base/printable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>

namespace diff {
namespace {

using Json = nlohmann::json;

constexpr std::string_view suffix = ".hashes.jsonl";

/// A line that does not obey the rules of the format.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool is_good, const char* rule) {
  if (!is_good) throw Damage(rule);
}

/// A text of a log, escaped for a terminal. Throws Json::exception if `json` is not a text.
std::string text_of(const Json& json) { return lockstep::detail::printable(json.get<std::string>()); }

std::vector<std::string> texts_of(const Json& json) {
  std::vector<std::string> texts;
  for (const Json& each : json.get_ref<const Json::array_t&>()) texts.push_back(text_of(each));
  return texts;
}

/// The integer `name` of `object`.
template <std::integral T>
T integer(const Json& object, const char* name) {
  return lockstep::detail::json_integer<T>(object.at(name), name);
}

std::vector<int> integers(const Json& object, const char* name) {
  std::vector<int> values;
  for (const Json& each : object.at(name).get_ref<const Json::array_t&>())
    values.push_back(lockstep::detail::json_integer<int>(each, name));
  return values;
}

Owners owners_of(const std::string& text) {
  if (text == "root") return Owners::root;
  if (text == "ranks") return Owners::ranks;
  if (text == "replicas") return Owners::replicas;
  require(text == "none", "unknown owners of tensors");
  return Owners::none;
}

Call read_call(const Json& json) {
  Call call;
  call.kind = text_of(json.at("kind"));
  call.op = text_of(json.value("op", Json("")));
  call.name = text_of(json.value("name", Json("")));
  call.text = text_of(json.at("text"));
  if (json.contains("file")) call.place = fmt::format("{}:{}", text_of(json.at("file")), integer<int>(json, "line"));
  call.root = json.contains("root") ? integer<int>(json, "root") : -1;
  call.inputs_of = owners_of(json.at("inputs_of").get<std::string>());
  call.outputs_of = owners_of(json.at("outputs_of").get<std::string>());
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const Json& each : json.at("items")) {
    Item item{texts_of(each.at("inputs")), texts_of(each.at("outputs")), inputs, outputs};
    inputs += item.inputs.size();
    outputs += item.outputs.size();
    call.items.push_back(std::move(item));
  }
  return call;
}

Communicator read_communicator(const Json& json) {
  Communicator communicator;
  communicator.name = text_of(json.at("name"));
  communicator.number = integer<std::uint64_t>(json, "number");
  communicator.job_ranks = integers(json, "job_ranks");
  communicator.rank = integer<int>(json, "rank");
  communicator.replicas = integers(json, "replicas");
  const auto& replicas = communicator.replicas;
  require(std::all_of(replicas.begin(), replicas.end(), [](int count) { return count >= 1 && count < (1 << 20); }),
          "a rank has at least one replica");
  require(communicator.rank >= 0 && static_cast<std::size_t>(communicator.rank) < replicas.size(),
          "the rank is not a rank of the communicator");
  require(communicator.job_ranks.empty() || communicator.job_ranks.size() == replicas.size(),
          "job_ranks and replicas have different lengths");
  return communicator;
}

std::vector<std::string> read_hashes(const Json& json) {
  std::vector<std::string> hashes;
  for (const Json& each : json) hashes.push_back(each.is_null() ? "" : text_of(each));
  return hashes;
}

/// Checks that the operation has the tensors that its call describes, and each local replica has its own.
void check(const Operation& operation, const Call& call, const Communicator& communicator) {
  const auto local = static_cast<std::size_t>(communicator.replicas[static_cast<std::size_t>(communicator.rank)]);
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const Item& item : call.items) {
    inputs += item.inputs.size();
    outputs += item.outputs.size();
    require(call.inputs_of != Owners::replicas || item.inputs.size() == local, "a replica has no input");
    require(call.outputs_of != Owners::replicas || item.outputs.size() == local, "a replica has no output");
  }
  require(operation.inputs.size() == inputs && operation.outputs.size() == outputs,
          "the numbers of hashes and tensors differ");
}

void read_operation(const Json& json, std::size_t line, Log& log) {
  const auto group = integer<std::size_t>(json, "c");
  require(group >= 1 && group <= log.communicators.size(), "the communicator is not described");
  Communicator& communicator = log.communicators[group - 1];
  if (json.contains("failed")) {
    ++communicator.failed;
    return;
  }
  const auto call = integer<std::size_t>(json, "of");
  require(call >= 1 && call <= log.calls.size(), "the call is not described");
  Operation operation{integer<std::int64_t>(json, "n"), call - 1, read_hashes(json.at("in")),
                      read_hashes(json.at("out")), line};
  check(operation, log.calls[call - 1], communicator);
  communicator.operations.push_back(std::move(operation));
}

void read_line(const std::string& text, std::size_t line, Log& log) {
  const lockstep::detail::JsonDocument document = lockstep::detail::read_json(text);
  const Json& json = *document;
  if (line == 1) {
    require(integer<int>(json, "lockstep_hash_log") == 1,
            "not version 1; use the lockstep-diff of the same installation");
    log.job = text_of(json.at("job"));
    log.rank = integer<int>(json, "rank");
    log.size = integer<int>(json, "size");
    require(log.rank >= 0 && log.rank < log.size && log.size <= (1 << 24), "the rank is not a rank of the job");
  } else if (json.contains("communicator")) {
    log.communicators.push_back(read_communicator(json));
  } else if (json.contains("call")) {
    log.calls.push_back(read_call(json));
  } else {
    read_operation(json, line, log);
  }
}

/// The files of `path`, sorted.
std::vector<std::string> find_logs(const std::string& path) {
  namespace fs = std::filesystem;
  const bool is_directory = fs::is_directory(path);
  const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  const fs::path directory = is_directory ? fs::path(path) : parent;
  const std::string prefix = is_directory ? "lockstep-" : fs::path(path).filename().string() + "-rank";
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name.starts_with(prefix) && name.ends_with(suffix) && entry.is_regular_file(ignored))
      paths.push_back(entry.path().string());
  }
  if (error) throw InputError(fmt::format("{}: {}", path, error.message()));
  if (paths.empty())
    throw InputError(fmt::format("{}: there are no hash logs; run the program with LOCKSTEP_HASH_LOG=DIRECTORY", path));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Log read_log(const std::string& path) {
  Log log;
  log.path = path;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  std::size_t line = 0;
  for (std::string text; std::getline(file, text);) {
    if (file.eof()) break;  // the disk was full: the last line is not complete
    try {
      read_line(text, ++line, log);
    } catch (const Damage& error) {
      throw InputError(fmt::format("{}:{}: {}", path, line, error.what()));
    } catch (const lockstep::detail::JsonValueError& error) {
      throw InputError(fmt::format("{}:{}: {}", path, line, error.what()));
    } catch (const lockstep::detail::JsonError& error) {
      throw InputError(fmt::format("{}:{}: not a line of a hash log of lockstep: {}", path, line, error.what()));
    } catch (const Json::exception&) {
      throw InputError(fmt::format("{}:{}: not a line of a hash log of lockstep", path, line));
    }
  }
  if (file.bad()) throw InputError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  if (line == 0) throw InputError(fmt::format("{}: the file is empty", path));
  return log;
}

Run read_run(const std::string& path) {
  Run run;
  run.path = path;
  std::set<std::string> jobs;
  for (const std::string& file : find_logs(path)) {
    run.logs.push_back(read_log(file));
    jobs.insert(run.logs.back().job);
  }
  if (jobs.size() > 1) {
    throw InputError(fmt::format("{}: there are logs of several jobs ({}); give one of them as {}/lockstep-{}", path,
                                 fmt::join(jobs, ", "), path, *jobs.begin()));
  }
  std::sort(run.logs.begin(), run.logs.end(), [](const Log& a, const Log& b) { return a.rank < b.rank; });
  for (int rank = 0; rank < run.size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (at >= run.logs.size() || run.logs[at].rank != rank) {
      throw InputError(
          fmt::format("{}: the log of rank {} is missing; job {} has {} ranks", path, rank, run.job(), run.size()));
    }
  }
  if (run.logs.size() != static_cast<std::size_t>(run.size()))
    throw InputError(fmt::format("{}: there are {} logs of {} ranks", path, run.logs.size(), run.size()));
  return run;
}

}  // namespace diff
