// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/distributed_items.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "core/refusal.hpp"

namespace lockstep {
namespace {

void check_item(const Item& item, ReduceOp op, std::string_view call, int local_replicas, int first_replica) {
  check_component_count(item.inputs.size(), call, local_replicas);
  const ConstTensorView& first = item.inputs.front();
  if (!supports(op, first.dtype)) {
    detail::throw_error(Code::invalid_argument, "{}: {}", call, detail::refusal(op, first.dtype));
  }
  check_same_dtype(item.inputs, call, first_replica);
  for (std::size_t i = 1; i < item.inputs.size(); ++i) {
    const ConstTensorView& other = item.inputs[i];
    if (other.shape == first.shape) continue;
    detail::throw_error(
        Code::invalid_argument,
        "{}: value has shape {} on replica {} but {} on replica {}; shapes must match unless axis is given", call,
        to_string(other.shape), first_replica + static_cast<int>(i), to_string(first.shape), first_replica);
  }
  for (const TensorView& output : item.outputs) {
    if (output.dtype != result_dtype(op, first.dtype)) {
      detail::throw_error(
          Code::invalid_argument,
          "{}: the {} of {} is {}, which the result's element type {} cannot hold; name the result's type, as in "
          "reduce<double>(ReduceOp::mean, value), or give Tensors",
          call, to_string(op), to_string(first.dtype), to_string(result_dtype(op, first.dtype)),
          to_string(output.dtype));
    }
  }
}

/// The number of words that encode one component: dtype, rows, axis, rank, extents.
constexpr std::size_t words_per_component = 4 + Shape::max_rank;

void append(std::vector<std::int64_t>& words, const ComponentShape& component) {
  words.push_back(static_cast<std::int64_t>(component.dtype));
  words.push_back(component.rows);
  words.push_back(component.axis);
  words.push_back(component.shape.rank());
  for (int i = 0; i < Shape::max_rank; ++i) words.push_back(i < component.shape.rank() ? component.shape[i] : 0);
}

ComponentShape parse(std::span<const std::int64_t> words) {
  const auto rank = static_cast<std::size_t>(words[3]);
  return {static_cast<DType>(words[0]), Shape(words.subspan(4, rank)), words[1], static_cast<int>(words[2])};
}

}  // namespace

void check_component_count(std::size_t components, std::string_view call, int local_replicas) {
  if (components == static_cast<std::size_t>(local_replicas)) return;
  detail::throw_error(Code::invalid_argument,
                      "{}: value has {}, but this rank has {}; it must have one component per replica", call,
                      detail::counted(components, "component"), detail::counted(local_replicas, "replica"));
}

void check_same_dtype(std::span<const ConstTensorView> components, std::string_view call, int first_replica) {
  const DType first = components.front().dtype;
  for (std::size_t i = 1; i < components.size(); ++i) {
    if (components[i].dtype == first) continue;
    detail::throw_error(
        Code::invalid_argument, "{}: value is {} on replica {} but {} on replica {}; element types must match", call,
        to_string(components[i].dtype), first_replica + static_cast<int>(i), to_string(first), first_replica);
  }
}

void check_distributed_items(std::span<const Item> items, ReduceOp op, std::string_view call, int local_replicas,
                             int first_replica) {
  for (const Item& item : items) check_item(item, op, call, local_replicas, first_replica);
}

std::vector<std::vector<ComponentShape>> exchange_shapes(Communicator& communicator, std::string_view call,
                                                         std::span<const std::vector<ComponentShape>> mine, ReduceOp op,
                                                         const ReduceOptions& how) {
  if (communicator.size() == 1) return {mine.begin(), mine.end()};
  const auto replicas = static_cast<std::size_t>(communicator.layout().replicas());
  const auto local = static_cast<std::size_t>(communicator.local_replicas());
  const std::size_t length = 1 + mine.size() * words_per_component;
  std::vector<std::vector<std::int64_t>> sent(local);
  std::vector<ConstTensorView> inputs;
  for (std::size_t i = 0; i < local; ++i) {
    sent[i].push_back(static_cast<std::int64_t>(op));
    for (const auto& components : mine) append(sent[i], components[i]);
    inputs.push_back(view_of(std::span<const std::int64_t>(sent[i])));
  }
  std::vector<std::int64_t> received(replicas * length);
  const TensorView output = view_of(std::span(received));
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_gather(std::span(&item, 1),
                          {.order = {}, .name = call, .fail_after = how.fail_after, .where = how.where});
  std::vector<std::vector<ComponentShape>> result(mine.size());
  for (std::size_t r = 0; r < replicas; ++r) {
    const auto words = std::span<const std::int64_t>(received).subspan(r * length, length);
    if (words[0] != received[0]) {
      detail::throw_error(Code::mismatch, "{}: op is {} on replica {} but {} on replica 0; it must be equal on all",
                          call, to_string(static_cast<ReduceOp>(words[0])), r,
                          to_string(static_cast<ReduceOp>(received[0])));
    }
    for (std::size_t k = 0; k < mine.size(); ++k)
      result[k].push_back(parse(words.subspan(1 + k * words_per_component, words_per_component)));
  }
  return result;
}

void check_axes_match(std::span<const ComponentShape> components, std::string_view call) {
  const ComponentShape& first = components.front();
  for (std::size_t r = 1; r < components.size(); ++r) {
    const ComponentShape& other = components[r];
    if (other.axis == first.axis || other.shape.rank() != first.shape.rank()) continue;
    detail::throw_error(Code::mismatch, "{}: axis is {} on replica {} but {} on replica 0; it must be equal on all",
                        call, other.axis, r, first.axis);
  }
}

void check_shapes_match(std::span<const ComponentShape> components, int axis, std::string_view call) {
  const ComponentShape& first = components.front();
  for (std::size_t r = 1; r < components.size(); ++r) {
    const ComponentShape& other = components[r];
    if (other.dtype != first.dtype) {
      detail::throw_error(Code::invalid_argument,
                          "{}: value is {} on replica {} but {} on replica 0; element types must match", call,
                          to_string(other.dtype), r, to_string(first.dtype));
    }
    bool equal = other.shape.rank() == first.shape.rank() && other.rows == first.rows;
    for (int i = 0; equal && i < first.shape.rank(); ++i) equal = i == axis || other.shape[i] == first.shape[i];
    if (equal) continue;
    if (other.rows != first.rows) {
      detail::throw_error(
          Code::invalid_argument,
          "{}: the IndexedSlices are for a tensor with {} on replica {} but {} on replica 0; it must be "
          "the same tensor",
          call, detail::counted(other.rows, "row"), r, first.rows);
    }
    detail::throw_error(
        Code::invalid_argument,
        "{}: value has shape {} on replica {} but {} on replica 0; all extents but that of axis {} must "
        "match",
        call, to_string(other.shape), r, to_string(first.shape), axis);
  }
}

}  // namespace lockstep
