// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The datasets that cases describe, and the batches of distributed ones.

#pragma once

#include "conformance/results.hpp"

#include <lockstep/lockstep.hpp>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::conformance {

/// The dataset of {"range"} or {"files"}, with "batch", "drop_remainder", "repeat" and "then_batch" applied in this
/// order.
Dataset<Tensor> dataset_of(const Json& json);
/// `rows` in batches as `json` says.
template <class T>
Dataset<T> batched(Dataset<T> rows, const Json& json) {
  if (json.contains("batch")) {
    rows = rows.batch(json["batch"].get<std::int64_t>(), {.drop_remainder = json.value("drop_remainder", false)});
  }
  if (json.contains("repeat")) rows = rows.repeat(json["repeat"].get<std::int64_t>());
  if (json.contains("then_batch")) rows = rows.batch(json["then_batch"].get<std::int64_t>());
  return rows;
}

/// An element {"a": x, "b": y}, in the form of the cases.
using Named = std::pair<Tensor, Tensor>;
inline Json named_result(const merged_t<Named>& value) {
  const auto& [a, b] = value;
  Json components = Json::array();
  for (int i = 0; i < a.size(); ++i)
    components.push_back({{"a", result_of(a.component(i))}, {"b", result_of(b.component(i))}});
  return {{"$replicas", components}, {"first", a.first_replica()}};
}
inline Json step_result(const PerReplica<Tensor>& value) { return result_of(value); }
inline Json step_result(const merged_t<Named>& value) { return named_result(value); }

/// The steps of one pass, followed by a check that the iterator stays at its end.
template <class T>
Json steps_of(const DistributedDataset<T>& dataset) {
  Json steps = Json::array();
  auto iterator = dataset.iterate();
  while (const auto step = iterator.get_next_as_optional()) steps.push_back(step_result(*step));
  const Json end = outcome_of([&] { return step_result(iterator.get_next()); });
  if (!end.contains("$error") || end["$error"] != "out_of_range") steps.push_back({{"after the end", end}});
  return steps;
}

}  // namespace lockstep::conformance
