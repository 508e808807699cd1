// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/check.hpp"
#include "base/json_reader.hpp"
#include "base/json_writer.hpp"
#include "cluster/cluster_tasks.hpp"

#include <lockstep/cluster/tf_config_cluster_resolver.hpp>

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::string_view form =
    R"({"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}})";

/// Throws an error that names a member of the document, such as cluster.worker[1].
template <class... Args>
[[noreturn]] void refuse(std::string_view place, fmt::format_string<Args...> text, Args&&... args) {
  detail::throw_error(Code::invalid_argument, "TF_CONFIG: {}: {}", place,
                      fmt::format(text, std::forward<Args>(args)...));
}

/// Text of a value, for an error text: one short line of printable characters.
std::string shown(const Json& value) {
  constexpr std::size_t most = 40;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > most) text = text.substr(0, most) + "...";
  return text;
}

detail::JsonDocument parsed(const std::string& text) {
  constexpr detail::JsonLimits limits{.bytes = std::size_t{1} << 24, .values = std::size_t{1} << 20, .depth = 32};
  detail::JsonDocument document;
  try {
    document = detail::read_json(text, limits);
  } catch (const detail::JsonError& error) {
    if (error.rule() == detail::JsonRule::depth)
      refuse("the document", "it is nested more than {} levels deep; expected {}", limits.depth, form);
    if (error.rule() == detail::JsonRule::unique_names) refuse(shown(error.name()), "duplicate member");
    detail::throw_error(Code::invalid_argument, "TF_CONFIG: {}{}; expected {}",
                        error.rule() == detail::JsonRule::syntax ? "" : "invalid JSON: ", error.what(), form);
  }
  if (!document->is_object())
    refuse("the document", "it must be an object, but it is of type {}; expected {}", document->type_name(), form);
  return document;
}

/// The member `name`, which must be an object; null if the member is missing.
const Json* object_in(const Json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end()) return nullptr;
  if (!found->is_object())
    refuse(name, "it must be an object, but it is of type {}; expected {}", found->type_name(), form);
  return &*found;
}

std::string address_from(const Json& value, const std::string& place) {
  if (!value.is_string())
    refuse(place, "{} is of type {}; an address must be a string such as \"host:2222\"", shown(value),
           value.type_name());
  auto address = value.get<std::string>();
  if (address.empty()) refuse(place, "the address is empty; expected \"host:port\"");
  return address;
}

int number_from(const std::string& text, const std::string& place) {
  int number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (text.empty() || error != std::errc{} || end != last || number < 0) {
    refuse(place, "{} is not a task number; it must be in 0 to {}", shown(text), std::numeric_limits<int>::max());
  }
  return number;
}

ClusterSpec::Tasks tasks_from(const Json& job, const std::string& place) {
  ClusterSpec::Tasks tasks;
  if (job.is_array()) {
    for (const Json& address : job) {
      const int id = static_cast<int>(tasks.size());
      tasks.emplace(id, address_from(address, fmt::format("{}[{}]", place, id)));
    }
  } else if (job.is_object()) {
    for (const auto& [key, address] : job.items()) {
      const int id = number_from(key, place);
      if (!tasks.emplace(id, address_from(address, fmt::format("{}.{}", place, key))).second) {
        refuse(place, "task {} is given twice, with its number written in two ways", id);
      }
    }
  } else {
    refuse(place, "{} is of type {}; a job must be a list of addresses, or an object of addresses by task number",
           shown(job), job.type_name());
  }
  return tasks;
}

ClusterSpec cluster_from(const Json& document) {
  std::map<std::string, ClusterSpec::Tasks> jobs;
  if (const Json* cluster = object_in(document, "cluster")) {
    for (const auto& [name, job] : cluster->items()) {
      if (name.empty()) refuse("cluster", "a job has an empty name; expected a name such as \"worker\"");
      jobs.emplace(name, tasks_from(job, fmt::format("cluster.{}", shown(name))));
    }
  }
  return ClusterSpec(std::move(jobs));
}

int index_from(const Json& value) {
  if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<int>::max()) {
    refuse("task.index", "{} is {}; it must be an integer in 0 to {}, without quotes", shown(value),
           value.is_number_integer() ? "out of range" : fmt::format("of type {}", value.type_name()),
           std::numeric_limits<int>::max());
  }
  return value.get<int>();
}

ClusterTask task_from(const Json& document, const TFConfigOptions& options) {
  ClusterTask task;
  if (const Json* given = object_in(document, "task")) {
    if (const auto type = given->find("type"); type != given->end()) {
      if (!type->is_string() || type->get_ref<const std::string&>().empty()) {
        refuse("task.type", "{} is not a job name; expected a string such as \"worker\"", shown(*type));
      }
      task.type = type->get<std::string>();
    }
    if (const auto index = given->find("index"); index != given->end()) task.id = index_from(*index);
  }
  task.type = options.task_type.value_or(task.type);
  task.id = options.task_id.value_or(task.id);
  if (task.type.empty() != (task.id < 0)) {
    refuse("task", "{} is missing; a task must have a type and an index", task.type.empty() ? "\"type\"" : "\"index\"");
  }
  return task;
}

SimpleClusterResolver resolver_from(const std::string& text, const TFConfigOptions& options) {
  const detail::JsonDocument document = parsed(text.empty() ? "{}" : text);
  ClusterSpec spec = cluster_from(*document);
  ClusterTask task = task_from(*document, options);
  if (!task.type.empty() && !spec.empty()) detail::check_task(spec, "TF_CONFIG: task", task.type, task.id);
  return SimpleClusterResolver(std::move(spec), std::move(task), options.accelerators);
}

std::string variable() {
  const char* const text = std::getenv("TF_CONFIG");
  return text == nullptr ? "" : text;
}

}  // namespace

TFConfigClusterResolver::TFConfigClusterResolver(const TFConfigOptions& options)
    : TFConfigClusterResolver(variable(), options) {}

TFConfigClusterResolver::TFConfigClusterResolver(const std::string& text, const TFConfigOptions& options)
    : ClusterResolver(resolver_from(text, options)) {}

TFConfigClusterResolver TFConfigClusterResolver::from_text(const std::string& text, const TFConfigOptions& options) {
  return {text, options};
}

std::string to_tf_config(const ClusterResolver& resolver) {
  detail::JsonWriter json;
  json.begin_object().name("cluster").begin_object();
  for (const auto& [name, tasks] : resolver.cluster_spec().as_dict()) {
    json.name(name);
    if (detail::is_dense(tasks)) {
      json.begin_array();
      for (const auto& [id, address] : tasks) json.value(address);
      json.end_array();
    } else {
      json.begin_object();
      for (const auto& [id, address] : tasks) json.member(std::to_string(id), address);
      json.end_object();
    }
  }
  json.end_object();
  if (!resolver.task_type().empty()) {
    json.name("task")
        .begin_object()
        .member("index", resolver.task_id())
        .member("type", resolver.task_type())
        .end_object();
  }
  return json.end_object().take();
}

}  // namespace lockstep
