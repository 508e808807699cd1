// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/hash_log.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "cluster/files.hpp"
#include "cluster/json_text.hpp"
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

OrderedJson to_json(const HashedCall& call) {
  OrderedJson json{{"kind", call.kind}, {"text", call.text}};
  if (!call.op.empty()) json["op"] = call.op;
  if (!call.name.empty()) json["name"] = call.name;
  if (!call.file.empty()) {
    json["file"] = call.file;
    json["line"] = call.line;
  }
  if (call.root >= 0) json["root"] = call.root;
  json["inputs_of"] = call.inputs_of;
  json["outputs_of"] = call.outputs_of;
  OrderedJson& items = json["items"] = OrderedJson::array();
  for (const HashedCall::Item& item : call.items) items.push_back({{"inputs", item.inputs}, {"outputs", item.outputs}});
  return json;
}

OrderedJson to_json(const HashedOperation::Hashes& hashes) {
  OrderedJson json = OrderedJson::array();
  for (const auto& hash : hashes) json.push_back(hash ? OrderedJson(fmt::format("{:016x}", *hash)) : OrderedJson());
  return json;
}

struct PresentLog {
  Mutex mutex;
  std::shared_ptr<HashLog> log LOCKSTEP_GUARDED_BY(mutex);
};

/// Never destroyed: communicators may be created after static objects were destroyed.
PresentLog& present_log() {
  static auto* const of_this_process = new PresentLog;
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
  write(to_text({{"lockstep_hash_log", 1},
                 {"job", name_of_this_job()},
                 {"rank", rank},
                 {"size", size},
                 {"host", host_name()},
                 {"pid", ::getpid()}}));
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
  write(to_text({{"communicator", ++groups_},
                 {"name", group.name},
                 {"number", group.number},
                 {"job_ranks", group.job_ranks},
                 {"rank", group.rank},
                 {"replicas", group.replicas}}));
  return groups_;
}

std::uint64_t HashLog::number_of(const HashedCall& call) {
  const OrderedJson json = to_json(call);
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = calls_.try_emplace(to_text(json), calls_.size() + 1);
  if (is_new) {
    OrderedJson line{{"call", entry->second}};
    line.update(json);
    write(to_text(line));
  }
  return entry->second;
}

void HashLog::add(std::uint64_t group, const HashedOperation& operation) {
  OrderedJson json{{"c", group}, {"epoch", operation.epoch}, {"n", operation.sequence}, {"of", operation.call}};
  json["in"] = to_json(operation.inputs);
  if (operation.failure.empty()) {
    json["out"] = to_json(operation.outputs);
  } else {
    json["failed"] = operation.failure;
  }
  const MutexLock lock(mutex_);
  write(to_text(json));
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
