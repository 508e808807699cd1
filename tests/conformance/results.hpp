// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of a step, as JSON with its kind: a tensor, a value with components, a variable, an error. Names that
// begin with '$' denote these kinds; everything else is a tree of them.

#pragma once

#include <lockstep/lockstep.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace lockstep::conformance {

using Json = nlohmann::json;

/// {"$tensor": dtype, "shape": [...], "data": [...]}
Json result_of(ConstTensorView view);
inline Json result_of(const Tensor& tensor) { return result_of(tensor.view()); }
/// {"$slices": [values, indices], "rows": n}
Json result_of(const IndexedSlices& slices);
/// {"$variable": name}
Json result_of(const Variable& variable);
inline Json result_of(const Json& json) { return json; }
inline Json result_of(const std::string& text) { return text; }
inline Json result_of(const char* text) { return text; }
template <class T>
  requires std::same_as<T, bool>
Json result_of(T value) {
  return value;
}
/// Numbers, and all other leaves.
template <class T>
  requires(TensorLike<T> && !std::same_as<T, bool>)
Json result_of(const T& value) {
  return result_of(ConstTensorView(tensor_traits<T>::view(value)));
}

template <class T>
Json result_of(const PerReplica<T>& value);
template <class T>
Json result_of(const Mirrored<T>& value);
template <class T>
  requires(!TensorLike<std::vector<T>>)
Json result_of(const std::vector<T>& list);
template <class T>
Json result_of(const std::map<std::string, T>& map);
template <class... T>
Json result_of(const std::tuple<T...>& tuple);
template <class T>
Json result_of(const std::optional<T>& value);
template <class... T>
Json result_of(const std::variant<T...>& value);

/// {"$replicas": [...], "first": id of the first}
template <class T>
Json result_of(const PerReplica<T>& value) {
  Json components = Json::array();
  for (int i = 0; i < value.size(); ++i) components.push_back(result_of(value.component(i)));
  return {{"$replicas", components}, {"first", value.first_replica()}};
}
/// {"$mirrored": [...]}
template <class T>
Json result_of(const Mirrored<T>& value) {
  Json components = Json::array();
  for (int i = 0; i < value.size(); ++i) components.push_back(result_of(value.component(i)));
  return {{"$mirrored", components}};
}
/// A list whose items are not elements.
template <class T>
  requires(!TensorLike<std::vector<T>>)
Json result_of(const std::vector<T>& list) {
  Json result = Json::array();
  for (const auto& element : list) result.push_back(result_of(T(element)));
  return result;
}
template <class T>
Json result_of(const std::map<std::string, T>& map) {
  Json result = Json::object();
  for (const auto& [key, value] : map) result[key] = result_of(value);
  return result;
}
template <class... T>
Json result_of(const std::tuple<T...>& tuple) {
  return std::apply(
      [](const auto&... elements) {
        Json result = Json::array();
        (result.push_back(result_of(elements)), ...);
        return result;
      },
      tuple);
}
template <class T>
Json result_of(const std::optional<T>& value) {
  return value ? result_of(*value) : Json();
}

template <class... T>
Json result_of(const std::variant<T...>& value) {
  return std::visit([](const auto& alternative) { return result_of(alternative); }, value);
}

/// The result of `body`, or {"$error": kind, "text": message}; the kind of an exception that is not a lockstep::Error
/// is "user".
template <class Body>
Json outcome_of(const Body& body) {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return "ok";
    } else {
      return result_of(body());
    }
  } catch (const Error& error) {
    return {{"$error", std::string(to_string(error.code()))}, {"text", error.text()}};
  } catch (const std::exception& error) {
    return {{"$error", "user"}, {"text", error.what()}};
  }
}

/// Circumstances of a comparison.
struct Viewpoint {
  int rank = 0;
  int replicas = 1;        ///< of all ranks
  int first_replica = 0;   ///< of this rank
  int local_replicas = 1;  ///< of this rank
  /// The placement is not that of the case: an error that one process detects as invalid_argument may be detected as a
  /// mismatch between ranks.
  bool moved = false;
};

/// The difference between `result` and `expectation` (as in cases.json); none if they match.
std::optional<std::string> difference(const Json& expectation, const Json& result, Viewpoint viewpoint);

}  // namespace lockstep::conformance
