// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/values/per_replica.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"

#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/tree.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

std::string text_of(const ValueName& name) {
  return name.number == 0 ? fmt::format("{}: {}", name.call, name.value)
                          : fmt::format("{}: {} {}", name.call, name.value, name.number);
}

}  // namespace

void check_components(std::size_t count, int first_replica) {
  if (count == 0)
    throw_error(
        Code::invalid_argument,
        "PerReplica, Mirrored: the list of components is empty; pass one component for each replica of this rank");
  if (first_replica < 0) {
    throw_error(Code::invalid_argument, "PerReplica: first_replica is {}; it must not be negative", first_replica);
  }
}

void check_component_index(int index, std::size_t count) {
  if (index < 0 || static_cast<std::size_t>(index) >= count) {
    throw_error(Code::out_of_range,
                "component: index is {}; it must be from 0 to {}, since the value has {} components", index, count - 1,
                count);
  }
}

void throw_not_one_value(std::size_t count) {
  throw_error(Code::failed_precondition,
              "PerReplica: used as one value, but it has {} components that may differ; reduce it, or use "
              "experimental_local_results",
              count);
}

void throw_other_count(const ValueName& name, int components, const LocalReplicas& replicas) {
  throw_error(Code::invalid_argument, "{} has {}, but this rank has {}; it must have one component per replica",
              text_of(name), counted(components, "component"), counted(replicas.count, "replica"));
}

void throw_other_first(const ValueName& name, int first, const LocalReplicas& replicas) {
  throw_error(Code::invalid_argument,
              "{} begins with the component of replica {}, but the first replica of this rank is {}; it must be made "
              "for the replicas of this rank, as PerReplica(components, first_replica)",
              text_of(name), first, replicas.first);
}

std::vector<std::size_t> sorted_numbers(std::size_t count, const void* list,
                                        bool (*is_less)(const void* list, std::size_t a, std::size_t b)) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::sort(numbers.begin(), numbers.end(), [&](std::size_t a, std::size_t b) { return is_less(list, a, b); });
  return numbers;
}

void throw_structure_differs(const char* what, int local) {
  throw_error(
      Code::invalid_argument,
      "run, merge_call: {} differs between local replica {} and local replica 0; all replicas must pass and return "
      "values of the same structure",
      what, local);
}

}  // namespace lockstep::detail
