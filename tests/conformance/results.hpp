// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a step gave, as JSON that says of which kind it is: a tensor, a value with components, a variable, an error.
// Names that begin with '$' are ours; everything else is a tree of those.

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
/// Numbers, and whatever else is a leaf.
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
/// A list, of other than elements.
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

/// What `body` gave, or {"$error": kind, "text": what it says}; an exception of another type than lockstep::Error is
/// the user's.
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

/// Where an expectation is looked at.
struct Viewpoint {
  int rank = 0;
  /// Replicas run elsewhere than the case says: a mistake that a process finds as invalid_argument may be a mismatch
  /// that ranks find.
  bool moved = false;
};

/// Why `result` is not what `expectation` (as in cases.json) says; none when it is.
std::optional<std::string> difference(const Json& expectation, const Json& result, Viewpoint viewpoint);

}  // namespace lockstep::conformance
