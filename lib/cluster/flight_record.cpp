// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/flight_record.hpp"

#include "base/check.hpp"
#include "base/json_writer.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "cluster/files.hpp"
#include "cluster/launcher.hpp"
#include "cluster/settings.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/flight_record.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {
namespace detail {
namespace {

struct Registry {
  Mutex mutex;
  std::vector<const RecordSource*> sources LOCKSTEP_GUARDED_BY(mutex);
  std::string directory LOCKSTEP_GUARDED_BY(mutex);
  int rank LOCKSTEP_GUARDED_BY(mutex) = -1;
  int size LOCKSTEP_GUARDED_BY(mutex) = 0;
  int failures LOCKSTEP_GUARDED_BY(mutex) = 0;
  bool has_logged LOCKSTEP_GUARDED_BY(mutex) = false;  // a thread has logged the directory
  int unfinished LOCKSTEP_GUARDED_BY(mutex) = 0;       // number of unfinished writes that failures have caused
  bool is_slow LOCKSTEP_GUARDED_BY(mutex) = false;     // one of the unfinished writes took too long
};

/// Never destroyed: communicators may be destroyed after static objects.
Registry& registry() {
  static NeverDestroyed<Registry> of_this_process;
  return *of_this_process;
}

void write(JsonWriter& json, const RecordedOperation& operation) {
  json.begin_object()
      .member("epoch", operation.epoch)
      .member("sequence", operation.sequence)
      .member("call", operation.call)
      .member("kind", operation.kind);
  if (!operation.op.empty()) json.member("op", operation.op);
  json.member("dtype", operation.dtype).member("elements", operation.elements);
  if (!operation.name.empty()) json.member("name", operation.name);
  if (operation.line != 0) json.member("file", operation.file).member("line", operation.line);
  if (operation.peer >= 0) json.member("peer", operation.peer);
  json.member("state", operation.state);
  if (!operation.result.empty()) json.member("result", operation.result);
  json.member("posted_us", operation.posted)
      .member("agreed_us", operation.agreed)
      .member("finished_us", operation.finished)
      .end_object();
}

void write(JsonWriter& json, const CommunicatorRecord& record) {
  json.begin_object()
      .member("name", record.name)
      .member("transport", record.transport)
      .member("number", record.number)
      .member("job_ranks", record.job_ranks)
      .member("rank", record.rank)
      .member("size", record.size)
      .member("posted", record.posted)
      .name("failures")
      .begin_array();
  for (const RecordedFailure& failure : record.failures) {
    json.begin_object()
        .member("epoch", failure.epoch)
        .member("sequence", failure.sequence)
        .member("text", failure.text)
        .end_object();
  }
  json.end_array().name("operations").begin_array();
  for (const RecordedOperation& operation : record.operations) write(json, operation);
  json.end_array().end_object();
}

/// Content of the record, before it is written to a file.
struct Contents {
  std::string job = name_of_this_job();
  std::string directory;
  int rank = -1;
  int size = 0;
  std::string text;
};

Contents read_all(std::string_view reason) {
  Contents contents;
  std::vector<CommunicatorRecord> communicators;
  {
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    contents.directory = all.directory;
    contents.rank = all.rank;
    contents.size = all.size;
    for (const RecordSource* const source : all.sources) {
      const CommunicatorRecord& record = communicators.emplace_back(source->read());
      if (contents.rank < 0 && !record.job_ranks.empty())
        contents.rank = record.job_ranks[static_cast<std::size_t>(record.rank)];
      contents.size = std::max(contents.size, static_cast<int>(record.job_ranks.size()));
    }
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  JsonWriter json(JsonWriter::Form::indented);
  json.begin_object()
      .member("lockstep_flight_record", 1)
      .member("job", contents.job)
      .member("rank", contents.rank)
      .member("size", contents.size)
      .member("host", host_name())
      .member("pid", ::getpid())
      .member("reason", reason)
      .member("written_us", std::chrono::duration_cast<std::chrono::microseconds>(now).count())
      .name("communicators")
      .begin_array();
  for (const CommunicatorRecord& record : communicators) write(json, record);
  contents.text = json.end_array().end_object().take() + "\n";
  return contents;
}

/// The directory of LOCKSTEP_RECORDER, which is created if it does not exist. If the variable has no directory, a
/// directory for temporary files.
std::string directory_of(const Contents& contents) {
  std::string named = contents.directory.empty() ? settings_from_environment().recorder_directory : contents.directory;
  if (!named.empty()) {
    ::mkdir(named.c_str(), 0777);  // if this fails, opening the file reports an error
    return named;
  }
  const char* const temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

std::string file_prefix(const std::string& job) { return "lockstep-" + job + "-rank"; }

std::string default_path(const Contents& contents) {
  const std::string name = contents.rank >= 0 ? file_prefix(contents.job) + std::to_string(contents.rank)
                                              : fmt::format("lockstep-{}-pid{}", contents.job, ::getpid());
  return directory_of(contents) + "/" + name + ".json";
}

std::string write_contents(const Contents& contents, const std::string& path) {
  std::string chosen = path.empty() ? default_path(contents) : path;
  replace_file(chosen, contents.text, "the flight record");
  return chosen;
}

/// Whether the directory of `path` has the file of a lower rank of the job. If so, the lower rank logs the directory.
bool is_beside_lower_rank(const std::string& path, const Contents& contents) {
  const std::string prefix = file_prefix(contents.job);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".json")) continue;
    int rank = 0;
    const auto digits = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), rank);
    if (digits.ec == std::errc{} && rank < contents.rank) return true;
  }
  return false;
}

/// State shared by the thread that writes and the thread that waits for the write.
struct Write {
  Mutex mutex;
  std::condition_variable ended;
  bool has_ended LOCKSTEP_GUARDED_BY(mutex) = false;

  void end() {
    const MutexLock lock(mutex);
    has_ended = true;
    ended.notify_all();
  }
  [[nodiscard]] bool wait_for_end(std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex);
    while (!has_ended && lock.wait_until(ended, until)) {}
    return has_ended;
  }
};

bool is_first_to_log() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  return !std::exchange(all.has_logged, true);
}

void write_and_log(Write& write, const std::string& reason) noexcept {
  try {
    const Contents contents = read_all(reason);
    const std::string path = write_contents(contents, {});
    const bool is_first = is_first_to_log();
    const auto log = [&contents, directory = std::filesystem::path(path).parent_path().string()] {
      log_warning("flight records of the ranks are in {}; to see what happened: lockstep-explain --job {} {}",
                  directory, contents.job, directory);
    };
    // Only the lowest rank with a file in the directory logs the directory. Rank 0 does so before its failure is
    // thrown, because its program may end right afterwards. A higher rank waits for the files of lower ranks; its
    // program may end during this wait.
    if (contents.rank <= 0 && is_first) log();
    write.end();
    if (contents.rank <= 0 || !is_first) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (!is_beside_lower_rank(path, contents)) log();
  } catch (const std::exception& error) {
    write.end();
    log_warning("{}", error.what());
  }
}

/// Whether to write a record for one more failure. While a file system does not respond, no record is written.
bool begin_write() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  if (all.unfinished == 0) all.is_slow = false;
  if (all.is_slow || all.failures == most_records_after_failures) return false;
  ++all.failures;
  ++all.unfinished;
  return true;
}

void end_write() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  --all.unfinished;
}

void note_slow_write() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.is_slow = true;
}

}  // namespace

void add_record_source(const RecordSource& source, const std::string& directory) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.sources.push_back(&source);
  if (!directory.empty()) all.directory = directory;
}

void remove_record_source(const RecordSource& source) noexcept {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  std::erase(all.sources, &source);
}

void set_record_rank(int rank, int size) noexcept {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.rank = rank;
  all.size = size;
}

void prepare_record_directory(const std::string& directory) {
  const int made = ::mkdir(directory.c_str(), 0777) == 0 ? 0 : errno;
  if (::access((directory + "/.").c_str(), W_OK | X_OK) == 0) return;
  const int reason = made == 0 || made == EEXIST ? errno : made;
  log_warning("LOCKSTEP_RECORDER: flight records cannot be written to the directory \"{}\": {}", directory,
              std::generic_category().message(reason));
}

void write_record_after_failure(const std::string& reason) noexcept {
  try {
    if (!begin_write()) return;
    std::shared_ptr<Write> write;
    try {
      write = std::make_shared<Write>();
      std::thread([write, reason] {
        write_and_log(*write, reason);
        end_write();
      }).detach();
    } catch (...) {
      end_write();
      throw;
    }
    if (!write->wait_for_end(std::chrono::seconds(1))) note_slow_write();
  } catch (const std::exception& error) {
    log_warning("cannot write the flight record: {}", error.what());
  }
}

std::string write_record(const std::string& path, std::string_view reason) {
  return write_contents(read_all(reason), path);
}

}  // namespace detail

std::string write_flight_record(const std::string& path) { return detail::write_record(path, "request"); }

}  // namespace lockstep
