// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/detail/leaves.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "cross_device/elements.hpp"
#include "device/host/host_elements.hpp"
#include "strategy/strategy_access.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/strategy/strategy_extended.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace lockstep {
namespace {

/// Whether each replica has a separate value: the variable belongs to the strategy, and is synchronized on read.
bool has_value_per_replica(const Variable& variable, const Sharing& sharing) {
  return variable.synchronization() == VariableSynchronization::on_read && sharing.strategy != nullptr &&
         !VariableAccess::team(variable).has_plain_variables() && sharing.strategy->variable_created_in_scope(variable);
}

bool is_reduced(LeafKind kind, const Variable* variable, const Sharing& sharing) {
  switch (kind) {
    case LeafKind::per_replica: return true;
    case LeafKind::mirrored: return false;
    case LeafKind::variable: return has_value_per_replica(*variable, sharing);
    case LeafKind::plain: return sharing.once_per_rank;
  }
  return false;
}

const char* name_of(LeafKind kind) {
  return kind == LeafKind::variable ? "variable" : kind == LeafKind::mirrored ? "mirrored value" : "plain value";
}

/// A copy of `tensor` on the device `place`.
Tensor copied_to(const Tensor& tensor, Device place) {
  Tensor result = Tensor::uninitialized(tensor.dtype(), tensor.shape(), nullptr, place);
  copy(result.view(), tensor.view());
  return result;
}

}  // namespace

ResultPlaces::ResultPlaces(Device device) noexcept : device_(device) {}
ResultPlaces::ResultPlaces(std::span<const Device> devices) noexcept : devices_(devices) {}
ResultPlaces::ResultPlaces(std::vector<Device> devices) noexcept : own_(std::move(devices)), devices_(own_) {}
ResultPlaces::ResultPlaces(ResultPlaces&&) noexcept = default;
ResultPlaces& ResultPlaces::operator=(ResultPlaces&&) noexcept = default;
ResultPlaces::~ResultPlaces() = default;

LeafList::LeafList(LeafList&&) noexcept = default;
LeafList::~LeafList() = default;

void LeafList::add_view(const ConstTensorView& view) { inputs_.push_back(view); }
void LeafList::add_slices(const IndexedSlices& slices) { slices_.push_back(&slices); }
void LeafList::add_output_view(const TensorView& view) { outputs_.push_back(view); }
void LeafList::add_slices_output(IndexedSlices& slices) { slices_outputs_.push_back(&slices); }

std::size_t LeafList::size() const noexcept { return is_reduced_.size(); }
bool LeafList::is_reduced(std::size_t k) const noexcept { return is_reduced_[k] != 0; }
std::size_t LeafList::dense_size() const noexcept { return input_ends_.size(); }
std::span<const std::vector<const IndexedSlices*>> LeafList::sparse_inputs() const { return sparse_inputs_; }
std::span<const std::vector<IndexedSlices*>> LeafList::sparse_outputs() const { return sparse_outputs_; }
std::span<const std::vector<Device>> LeafList::sparse_places() const { return sparse_places_; }

LeafList::LeafList(ReduceOp op, const Sharing& sharing, std::shared_ptr<MemoryResource> memory)
    : op_(op), sharing_(sharing), memory_(std::move(memory)) {}

void LeafList::reserve(std::size_t leaves, std::size_t components, std::size_t results) {
  is_reduced_.reserve(leaves);
  input_ends_.reserve(leaves);
  output_ends_.reserve(leaves);
  inputs_.reserve(components);
  outputs_.reserve(results);
}

void LeafList::add_argument(std::string_view text) {
  if (!arguments_.empty() && !text.empty()) arguments_ += ", ";
  arguments_ += text;
}

bool LeafList::begin(LeafKind kind, const Variable* variable) {
  const bool reduced = lockstep::is_reduced(kind, variable, sharing_);
  if (!reduced && sharing_.replicas > 1) check_keeps_one_value(sharing_.call, op_, name_of(kind));
  is_reduced_.push_back(reduced ? 1 : 0);
  return reduced;
}

void LeafList::begin_value(LeafKind kind) {
  is_reduced_.push_back(lockstep::is_reduced(kind, nullptr, sharing_) ? 1 : 0);
}

void LeafList::end_components() {
  if (slices_.empty()) {
    input_ends_.push_back(inputs_.size());
  } else {
    sparse_inputs_.push_back(std::exchange(slices_, {}));
  }
}

void LeafList::end_outputs(const ResultPlaces& places) {
  if (slices_outputs_.empty()) {
    output_ends_.push_back(outputs_.size());
    return;
  }
  sparse_outputs_.push_back(std::exchange(slices_outputs_, {}));
  auto& devices = sparse_places_.emplace_back();
  for (int i = 0; i < places.size(); ++i) devices.push_back(places[i]);
}

Tensor LeafList::add_variable(const Variable& variable, Device place) {
  if (!begin(LeafKind::variable, &variable)) return detail::placed(variable.read(), place);
  for (int i = 0; i < variable.component_count(); ++i) inputs_.push_back(std::as_const(variable).component(i).view());
  end_components();
  return result_for(std::as_const(variable).component(0).view(), place);
}

void LeafList::add_value(const Variable& variable) {
  const bool reduced = has_value_per_replica(variable, sharing_);
  is_reduced_.push_back(reduced ? 1 : 0);
  if (reduced) {
    for (int i = 0; i < variable.component_count(); ++i) inputs_.push_back(std::as_const(variable).component(i).view());
  } else {
    inputs_.push_back(std::as_const(values_.emplace_back(variable.read())).view());
  }
  end_components();
}

Tensor LeafList::uninitialized(DType dtype, const Shape& shape, Device place) const {
  return Tensor::uninitialized(dtype, shape, place.kind == DeviceKind::cpu ? memory_ : nullptr, place);
}

Tensor LeafList::result_for(ConstTensorView component, Device place) const {
  return uninitialized(result_dtype(op_, component.dtype), component.shape, place);
}

Tensor LeafList::copy_of_result(const Tensor& result, Device place) const {
  return is_reduced_.back() != 0 ? uninitialized(result.dtype(), result.shape(), place) : copied_to(result, place);
}

std::span<const ConstTensorView> LeafList::components(std::size_t dense_leaf) const {
  const std::size_t begin = dense_leaf == 0 ? 0 : input_ends_[dense_leaf - 1];
  return std::span(inputs_).subspan(begin, input_ends_[dense_leaf] - begin);
}

std::vector<Item> LeafList::items() const {
  std::vector<Item> result;
  result.reserve(input_ends_.size());
  std::size_t output = 0;
  for (std::size_t k = 0; k < input_ends_.size(); ++k) {
    result.push_back({components(k), std::span(outputs_).subspan(output, output_ends_[k] - output)});
    output = output_ends_[k];
  }
  return result;
}

void check_keeps_one_value(std::string_view call, ReduceOp op, const char* kind) {
  if (op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::bxor) return;
  detail::throw_error(
      Code::invalid_argument,
      "{}: the {} of a {} over replicas has no meaning, since all replicas share this one value; use mean, or pass "
      "one value per replica, such as the result of run",
      call, to_string(op), kind);
}

namespace detail {

Tensor placed(const Tensor& value, Device place) {
  const bool is_there = is_on_host(place) ? is_on_host(value.device()) : value.device() == place;
  if (!is_there) return copied_to(value, place);
  Tensor there(value);
  set_cpu(there, place);
  return there;
}

IndexedSlices placed(const IndexedSlices& value, Device place) {
  return {placed(value.values, place), placed(value.indices, place), value.rows};
}

Tensor total_of_one(ConstTensorView value, ReduceOp op) {
  if (result_dtype(op, value.dtype) != value.dtype) return divided(value, 1);
  Tensor result(value.dtype, value.shape);
  result.copy_from(value);
  return result;
}

Tensor converted_result(const Tensor& total, DType dtype, const Shape& shape, ReduceOp op) {
  if (total.shape() != shape) {
    throw_error(Code::invalid_argument,
                "reduce: the result has shape {}, but the result type is one number; reduce a Tensor, or pass "
                "std::nullopt as the axis to reduce no axis",
                to_string(total.shape()));
  }
  if (!holds(dtype, total.dtype())) {
    const std::string remedy =
        holds(DType::f64, total.dtype())
            ? "the result's type, as in reduce<double>(op, value)"
            : fmt::format("a result type that holds every {}, or Tensor", to_string(total.dtype()));
    throw_error(Code::invalid_argument, "reduce: the {} is {}, which the result type {} cannot hold; name {}",
                to_string(op), to_string(total.dtype()), to_string(dtype), remedy);
  }
  return converted_to(total.view(), dtype);
}

}  // namespace detail
}  // namespace lockstep
