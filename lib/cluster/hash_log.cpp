// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/hash_log.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/json_writer.hpp"
#include "base/log.hpp"
#include "base/never_destroyed.hpp"
#include "cluster/files.hpp"
#include "cluster/launcher.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace lockstep::detail {
namespace {

std::string path_of(const std::string& directory, int rank) {
  ::mkdir(directory.c_str(), 0777);  // if this fails, opening the file reports an error
  return fmt::format("{}/lockstep-{}-rank{}.hashes.jsonl", directory, name_of_this_job(), rank);
}

std::string to_json(const HashedCall& call) {
  JsonWriter json;
  json.begin_object().member("kind", call.kind).member("text", call.text);
  if (!call.op.empty()) json.member("op", call.op);
  if (!call.name.empty()) json.member("name", call.name);
  if (!call.file.empty()) json.member("file", call.file).member("line", call.line);
  if (call.root >= 0) json.member("root", call.root);
  json.member("inputs_of", call.inputs_of).member("outputs_of", call.outputs_of).name("items").begin_array();
  for (const HashedCall::Item& item : call.items)
    json.begin_object().member("inputs", item.inputs).member("outputs", item.outputs).end_object();
  return json.end_array().end_object().take();
}

std::vector<std::optional<std::string>> to_texts(const HashedOperation::Hashes& hashes) {
  std::vector<std::optional<std::string>> texts;
  for (const auto& hash : hashes) texts.push_back(hash ? std::optional(fmt::format("{:016x}", *hash)) : std::nullopt);
  return texts;
}

struct PresentLog {
  Mutex mutex;
  std::shared_ptr<HashLog> log LOCKSTEP_GUARDED_BY(mutex);
};

/// Never destroyed: communicators may be created after static objects were destroyed.
PresentLog& present_log() {
  static NeverDestroyed<PresentLog> of_this_process;
  return *of_this_process;
}

}  // namespace

HashLog::HashLog(const std::string& directory, int rank, int size)
    : fork_depth_(fork_depth()), path_(path_of(directory, rank)) {
  const MutexLock lock(mutex_);
  try {
    file_ = OutputFile::create(path_);
  } catch (const FileError& error) {
    throw_error(Code::invalid_argument, "LOCKSTEP_HASH_LOG=\"{}\": the file {} cannot be written: {}", directory, path_,
                error.what());
  }
  write(JsonWriter()
            .begin_object()
            .member("lockstep_hash_log", 1)
            .member("job", name_of_this_job())
            .member("rank", rank)
            .member("size", size)
            .member("host", host_name())
            .member("pid", ::getpid())
            .end_object()
            .take());
}

void HashLog::write(std::string line) {
  if (!file_.is_open() || fork_depth() != fork_depth_) return;
  line += '\n';
  try {
    file_.write(line);
  } catch (const FileError& error) {
    log_warning("LOCKSTEP_HASH_LOG: cannot write {}: {}; the rest of the log is missing", path_, error.what());
    file_ = {};
  }
}

std::uint64_t HashLog::number_of(const HashedGroup& group) {
  const MutexLock lock(mutex_);
  write(JsonWriter()
            .begin_object()
            .member("communicator", ++groups_)
            .member("name", group.name)
            .member("number", group.number)
            .member("job_ranks", group.job_ranks)
            .member("rank", group.rank)
            .member("replicas", group.replicas)
            .end_object()
            .take());
  return groups_;
}

std::uint64_t HashLog::number_of(const HashedCall& call) {
  const std::string json = to_json(call);
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = calls_.try_emplace(json, calls_.size() + 1);
  if (is_new) write(fmt::format(R"({{"call":{},{})", entry->second, json.substr(1)));  // as the first member
  return entry->second;
}

void HashLog::add(std::uint64_t group, const HashedOperation& operation) {
  JsonWriter json;
  json.begin_object()
      .member("c", group)
      .member("epoch", operation.epoch)
      .member("n", operation.sequence)
      .member("of", operation.call)
      .member("in", to_texts(operation.inputs));
  if (operation.failure.empty()) {
    json.member("out", to_texts(operation.outputs));
  } else {
    json.member("failed", operation.failure);
  }
  json.end_object();
  const MutexLock lock(mutex_);
  write(json.take());
}

void set_hash_log(std::shared_ptr<HashLog> log) {
  PresentLog& present = present_log();
  const MutexLock lock(present.mutex);
  present.log = std::move(log);
}

std::shared_ptr<HashLog> hash_log_of_this_process() {
  PresentLog& present = present_log();
  const MutexLock lock(present.mutex);
  return present.log;
}

}  // namespace lockstep::detail
