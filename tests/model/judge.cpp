// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/judge.hpp"

#include <algorithm>

namespace lockstep::test {
namespace {

/// The result as the texts of the local replicas, or as one text.
Outcome outcome_of(const Answer& answer, const std::string& skeleton, std::size_t count) {
  if (answer.error) return {answer.error, {}};
  return {{}, Texts(count, filled(skeleton, answer.leaves))};
}

/// The parts of a nest that local replicas get. A nest without distributed values has one part, if `or_one`.
Outcome parts_of(const Recorded& nest, const Layout& layout, int rank, bool or_one) {
  Outcome outcome;
  const auto first = static_cast<std::size_t>(layout.first(rank));
  const Leaves& leaves = nest.leaves[first];
  const bool is_one = std::none_of(leaves.begin(), leaves.end(), [](const auto& l) { return l.share != Share::plain; });
  const std::size_t count =
      or_one && is_one ? 1 : static_cast<std::size_t>(layout.counts[static_cast<std::size_t>(rank)]);
  for (std::size_t i = 0; i < count; ++i) outcome.texts.push_back(filled(nest.skeleton, nest.leaves[first + i]));
  return outcome;
}

/// The devices of the copies of a Tensor. The components of a destination are on cpu:0, as the nests are made.
std::string devices_of(Target target, int local) {
  if (target == Target::other_device) return "@cpu:1";
  std::string devices;
  const bool is_device = target == Target::device || target == Target::device_name;
  for (int i = 0; i < (is_device ? 1 : local); ++i)
    devices += "@cpu:" + std::to_string(target == Target::variable ? i : 0);
  return devices;
}

Outcome expected_copies(const Call& call, Recorded nest, const Layout& layout, int rank) {
  const int local = layout.counts[static_cast<std::size_t>(rank)];
  const bool is_value = call.target == Target::value || call.target == Target::variable;
  const bool has_copies = call.kind == Kind::reduce_to || call.pairs > 0;
  if (all_facts()[call.nest].name == "Tensor") {
    std::string skeleton;
    for (const char c : nest.skeleton) skeleton += c == ';' ? devices_of(call.target, local) + c : std::string(1, c);
    nest.skeleton = skeleton;
  }
  Outcome outcome = outcome_of(reduce_leaves(call.op, nest.leaves, layout), nest.skeleton, 1);
  if (!outcome.error) outcome.texts.front() += std::to_string(has_copies ? is_value ? local : 1 : 0);
  return outcome;
}

}  // namespace

std::string to_string(const Outcome& outcome) {
  if (outcome.error) return "Error(" + std::string(lockstep::to_string(*outcome.error)) + ")";
  std::string text;
  for (const std::string& part : outcome.texts) text += "\n    " + part;
  return text;
}

const std::vector<Nest>& all_nests() {
  static const std::vector<Nest> nests = [] {
    std::vector<Nest> all;
    add_nests(all);
    return all;
  }();
  return nests;
}

const std::vector<NestFacts>& all_facts() {
  static const std::vector<NestFacts> facts = [] {
    std::vector<NestFacts> all;
    for (const Nest& nest : all_nests()) all.push_back(nest.facts);
    return all;
  }();
  return facts;
}

Outcome expected(const Call& call, const Layout& layout, int rank) {
  if (call.kind == Kind::variable) return {{}, expected_of_variable(call, layout, rank)};
  if (call.kind == Kind::pairs) return expected_of_pairs(call, layout, rank);
  const Recorded nest = all_nests()[call.nest].record(call, layout);
  const auto local = static_cast<std::size_t>(layout.counts[static_cast<std::size_t>(rank)]);
  switch (call.kind) {
    case Kind::reduce: {
      const ResultType type = call.as_double ? ResultType::f64 : ResultType::own;
      return outcome_of(reduce_leaves(call.op, nest.leaves, layout, type), nest.skeleton, 1);
    }
    case Kind::reduce_along: {
      const Forms forms = all_facts()[call.nest].dtype ? Forms::any : Forms::only_tensors;
      return outcome_of(reduce_leaves_along(call.op, call.axes, nest.leaves, layout, forms), nest.skeleton, 1);
    }
    case Kind::gather: return outcome_of(gather_leaves(call.axis, nest.leaves, layout.first(rank)), nest.skeleton, 1);
    case Kind::reduce_to:
    case Kind::batch_reduce_to: return expected_copies(call, nest, layout, rank);
    case Kind::all_reduce:
    case Kind::merge_call: return outcome_of(reduce_leaves(call.op, nest.leaves, layout), nest.skeleton, local);
    case Kind::all_gather:
      return outcome_of(gather_leaves(call.axis, nest.leaves, layout.first(rank)), nest.skeleton, local);
    case Kind::broadcast:
      return outcome_of({{}, nest.leaves[static_cast<std::size_t>(call.root)]}, nest.skeleton, local);
    case Kind::local_results: return parts_of(nest, layout, rank, !all_facts()[call.nest].is_leaf);
    case Kind::run:
    case Kind::update: return parts_of(nest, layout, rank, false);
    case Kind::variable:
    case Kind::pairs: break;
  }
  return {};
}

std::span<const Elements> local_copies(const ModelVariable& variable, const Layout& layout, int rank) {
  const auto count = static_cast<std::size_t>(layout.counts[static_cast<std::size_t>(rank)]);
  return std::span(variable.copies()).subspan(static_cast<std::size_t>(layout.first(rank)), count);
}

Outcome performed(Strategy& strategy, const Call& call, const Layout& layout, int rank, std::string& text) {
  try {
    if (call.kind == Kind::variable) return {{}, performed_on_variable(strategy, call, layout, rank)};
    if (call.kind == Kind::pairs) return {{}, performed_on_pairs(strategy, call, layout, rank)};
    return {{}, all_nests()[call.nest].perform(strategy, call, layout, rank)};
  } catch (const Error& error) {
    text = error.what();
    return {error.code(), {}};
  }
}

}  // namespace lockstep::test
