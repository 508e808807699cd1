// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "conformance/results.hpp"

#include "core/visit_dtype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>

namespace lockstep::conformance {
namespace {

using Difference = std::optional<std::string>;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has(const Json& json, const char* key) { return json.is_object() && json.contains(key); }

Difference differ(const Json& expectation, const Json& result) {
  return fmt::format("expected {}\n     got {}", expectation.dump(), result.dump());
}

/// "nan", "inf", "-inf" or a number.
double number_of(const Json& json) {
  if (!json.is_string()) return json.is_boolean() ? json.get<bool>() : json.get<double>();
  if (json == "nan") return std::nan("");
  if (json == "inf") return HUGE_VAL;
  return -HUGE_VAL;
}

bool is_number(const Json& json) {
  return json.is_number() || json.is_boolean() || json == "nan" || json == "inf" || json == "-inf";
}

/// Whether `result`, an element of type `dtype`, equals `expectation` rounded to that type.
bool equal(const Json& expectation, const Json& result, DType dtype) {
  if (dtype == DType::boolean) return expectation.is_boolean() && expectation == result;
  if (is_integer(dtype) && expectation.is_number_integer()) return expectation == result;
  const double got = number_of(result);
  return detail::visit_dtype(dtype, [&]<class T>() {
    const double wanted = number_of(expectation);
    double rounded = wanted;
    if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
      rounded = static_cast<double>(static_cast<float>(T(static_cast<float>(wanted))));
    } else if constexpr (std::same_as<T, float>) {
      rounded = static_cast<double>(static_cast<float>(wanted));
    }
    return rounded == got || (std::isnan(rounded) && std::isnan(got));
  });
}

/// Compares nested arrays with a tensor, beginning at `axis`; `next` counts the elements.
bool equal_from(const Json& expectation, const Json& tensor, std::size_t axis, std::size_t& next, double tolerance) {
  const Json& shape = tensor["shape"];
  if (axis == shape.size()) {
    if (!is_number(expectation)) return false;
    const Json& element = tensor["data"][next++];
    if (tolerance != 0) return std::abs(number_of(expectation) - number_of(element)) <= tolerance;
    return equal(expectation, element, parse_dtype(tensor["$tensor"].get<std::string>()));
  }
  if (!expectation.is_array() || expectation.size() != shape[axis].get<std::size_t>()) return false;
  return std::ranges::all_of(expectation,
                             [&](const Json& part) { return equal_from(part, tensor, axis + 1, next, tolerance); });
}

bool equal_tensor(const Json& expectation, const Json& tensor, double tolerance = 0) {
  std::size_t next = 0;
  // an empty array does not determine the following axes
  if (expectation == Json::array() && tensor["data"].empty()) return true;
  return equal_from(expectation, tensor, 0, next, tolerance);
}

Difference error_difference(const Json& expectation, const Json& result, Viewpoint viewpoint) {
  if (!has(result, "$error")) return differ(expectation, result);
  const bool same_kind = result["$error"] == expectation["error"];
  if (!same_kind && viewpoint.moved && expectation["error"] == "invalid_argument" && result["$error"] == "mismatch") {
    return std::nullopt;
  }
  if (!same_kind) return differ(expectation, result);
  if (has(expectation, "message_contains")) {
    const std::string text = lower(result["text"].get<std::string>());
    for (const Json& part : expectation["message_contains"]) {
      if (text.find(lower(part.get<std::string>())) == std::string::npos) return differ(expectation, result);
    }
  }
  return std::nullopt;
}

Difference each(const Json& expectation, const Json& components, Viewpoint viewpoint) {
  if (components.empty()) return differ(expectation, components);
  for (const Json& component : components) {
    if (auto found = difference(expectation, component, viewpoint)) return found;
  }
  return std::nullopt;
}

/// Compares {"replicas": [...]} with the components of this rank: exactly those of its replicas. A script that makes a
/// strategy of its own, with another number of replicas, has one rank.
Difference replicas_difference(const Json& expectation, const Json& result, Viewpoint viewpoint) {
  if (!has(result, "$replicas")) return differ(expectation, result);
  const Json& all = expectation["replicas"];
  const auto first = result["first"].get<std::size_t>();
  const Json& components = result["$replicas"];
  const bool of_the_case = all.size() == static_cast<std::size_t>(viewpoint.replicas);
  const int wanted_first = of_the_case ? viewpoint.first_replica : 0;
  const std::size_t wanted = of_the_case ? static_cast<std::size_t>(viewpoint.local_replicas) : all.size();
  if (first != static_cast<std::size_t>(wanted_first) || components.size() != wanted)
    return differ(expectation, result);
  for (std::size_t i = 0; i < components.size(); ++i) {
    if (auto found = difference(all[first + i], components[i], viewpoint)) return found;
  }
  return std::nullopt;
}

Difference slices_difference(const Json& expectation, const Json& result, Viewpoint viewpoint) {
  if (!has(result, "$slices")) return differ(expectation, result);
  if (has(expectation, "rows") && expectation["rows"] != result["rows"]) return differ(expectation, result);
  if (auto found = difference(expectation["values"], result["$slices"][0], viewpoint)) return found;
  return difference(expectation["indices"], result["$slices"][1], viewpoint);
}

/// {"value", "dtype", "shape"}
Difference typed_difference(const Json& expectation, const Json& result, Viewpoint viewpoint) {
  if (!has(result, "$tensor")) return differ(expectation, result);
  if (has(expectation, "dtype") && expectation["dtype"] != result["$tensor"]) return differ(expectation, result);
  if (has(expectation, "shape") && expectation["shape"] != result["shape"]) return differ(expectation, result);
  return difference(expectation["value"], result, viewpoint);
}

Difference tree_difference(const Json& expectation, const Json& result, Viewpoint viewpoint) {
  if (expectation.size() != result.size()) return differ(expectation, result);
  if (expectation.is_array()) {
    for (std::size_t i = 0; i < expectation.size(); ++i) {
      if (auto found = difference(expectation[i], result[i], viewpoint)) return found;
    }
    return std::nullopt;
  }
  for (const auto& [key, value] : expectation.items()) {
    if (!result.contains(key)) return differ(expectation, result);
    if (auto found = difference(value, result[key], viewpoint)) return found;
  }
  return std::nullopt;
}

}  // namespace

Json result_of(ConstTensorView view) {
  Tensor here;
  if (view.device.kind == DeviceKind::gpu) {
    here = Tensor(view.dtype, view.shape);
    here.copy_from(view);
    view = here.view();
  }
  Json data = Json::array();
  detail::visit_dtype(view.dtype, [&]<class T>() {
    const std::span<const T> elements(static_cast<const T*>(view.data), static_cast<std::size_t>(view.element_count()));
    for (const T element : elements) {
      if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
        data.push_back(static_cast<double>(static_cast<float>(element)));
      } else if constexpr (std::is_floating_point_v<T>) {
        data.push_back(static_cast<double>(element));
      } else {
        data.push_back(element);
      }
    }
  });
  return {{"$tensor", std::string(to_string(view.dtype))}, {"shape", view.shape.extents()}, {"data", data}};
}

Json result_of(const IndexedSlices& slices) {
  return {{"$slices", {result_of(slices.values), result_of(slices.indices)}}, {"rows", slices.rows}};
}

Json result_of(const Variable& variable) { return {{"$variable", variable.name()}}; }

Difference difference(const Json& expectation, const Json& result, Viewpoint viewpoint) {
  if (has(expectation, "error")) return error_difference(expectation, result, viewpoint);
  if (has(expectation, "ranks")) {
    return difference(expectation["ranks"][static_cast<std::size_t>(viewpoint.rank)], result, viewpoint);
  }
  if (has(result, "$error")) return differ(expectation, result);
  if (expectation == "ok") return std::nullopt;
  if (has(expectation, "replicas")) return replicas_difference(expectation, result, viewpoint);
  if (has(expectation, "mirrored")) {
    return has(result, "$mirrored") ? each(expectation["mirrored"], result["$mirrored"], viewpoint)
                                    : differ(expectation, result);
  }
  if (has(expectation, "variable")) {
    return result == Json{{"$variable", expectation["variable"]}} ? std::nullopt : differ(expectation, result);
  }
  if (has(expectation, "indices")) return slices_difference(expectation, result, viewpoint);
  if (has(result, "$replicas")) return each(expectation, result["$replicas"], viewpoint);
  if (has(result, "$mirrored")) return each(expectation, result["$mirrored"], viewpoint);
  if (has(expectation, "value")) return typed_difference(expectation, result, viewpoint);
  if (has(expectation, "near")) {
    if (result.is_array()) {  // a list of numbers
      for (std::size_t i = 0; i < result.size(); ++i) {
        if (!equal_tensor(expectation["near"].at(i), result[i], expectation["abs"].get<double>()))
          return differ(expectation, result);
      }
      return std::nullopt;
    }
    return has(result, "$tensor") && equal_tensor(expectation["near"], result, expectation["abs"].get<double>())
               ? std::nullopt
               : differ(expectation, result);
  }
  if (has(result, "$tensor")) return equal_tensor(expectation, result) ? std::nullopt : differ(expectation, result);
  if (expectation.is_structured() && expectation.type() == result.type()) {
    return tree_difference(expectation, result, viewpoint);
  }
  return expectation == result ? std::nullopt : differ(expectation, result);
}

}  // namespace lockstep::conformance
