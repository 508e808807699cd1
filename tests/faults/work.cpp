// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "work.hpp"

#include <lockstep/device/arena.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <algorithm>
#include <map>
#include <string>

namespace faults {
namespace {

using lockstep::DType;

template <class Call>
auto with_elements(lockstep::Tensor& tensor, const Call& call) {
  return tensor.dtype() == DType::f64 ? call(tensor.elements<double>()) : call(tensor.elements<float>());
}

}  // namespace

Change change_of(const std::string& event) {
  static const std::map<std::string, Change> changes{
      {"count", Change::count}, {"dtype", Change::dtype},       {"op", Change::op},
      {"root", Change::root},   {"kind", Change::kind},         {"list", Change::list},
      {"name", Change::name},   {"replicas", Change::replicas}, {"options", Change::options}};
  const auto found = changes.find(event);
  return found == changes.end() ? Change::none : found->second;
}

Kind first_kind(const Settings& settings) {
  return change_of(settings.event) == Change::root ? Kind::broadcast : Kind::sum;
}

void make_pair(const Settings& settings, const Pair& pair, const std::function<void()>& one_more) {
  const std::string event = settings.is_culprit() ? settings.event : "";
  if (event == "extra") one_more();
  if (event == "swap") pair.second();
  if (event != "skip") pair.first(change_of(event));
  if (event != "swap") pair.second();
}

double sum_of(int ranks, int k) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, k);
  return sum;
}

WorkShape WorkShape::with(Change change) const {
  WorkShape changed = *this;
  if (change == Change::count) ++changed.elements;
  if (change == Change::list) ++changed.tensors;
  if (change == Change::dtype) changed.dtype = DType::f64;
  return changed;
}

Work::Work(const WorkShape& shape, double value) {
  const auto memory = shape.in_arena ? lockstep::arena_memory_resource() : lockstep::heap_memory_resource();
  for (int i = 0; i < shape.tensors; ++i) {
    tensors_.push_back(lockstep::Tensor::uninitialized(shape.dtype, lockstep::Shape{shape.elements}, memory));
    with_elements(tensors_.back(), [value]<class T>(std::span<T> elements) {
      std::fill(elements.begin(), elements.end(), static_cast<T>(value));
    });
    views_.push_back(tensors_.back().view());
  }
  inputs_.assign(views_.begin(), views_.end());
  for (std::size_t i = 0; i < views_.size(); ++i) {
    items_.push_back({std::span(inputs_).subspan(i, 1), std::span<const lockstep::TensorView>(views_).subspan(i, 1)});
  }
}

void Work::check(double expected, const char* what) const {
  for (const lockstep::Tensor& tensor : tensors_) {
    lockstep::Tensor same = tensor;
    const auto wrong = with_elements(same, [expected]<class T>(std::span<T> elements) {
      const auto is_wrong = [expected](T element) { return static_cast<double>(element) != expected; };
      return std::count_if(elements.begin(), elements.end(), is_wrong);
    });
    if (wrong == 0) continue;
    const double first = with_elements(same, [](auto elements) { return static_cast<double>(elements[0]); });
    throw WrongResult(std::string(what) + ": " + std::to_string(wrong) + " of " +
                      std::to_string(tensor.element_count()) + " elements are not " + std::to_string(expected) +
                      "; the first is " + std::to_string(first));
  }
}

}  // namespace faults
