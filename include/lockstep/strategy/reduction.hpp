// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The typed edge of `Strategy::reduce`: which leaf gives which result.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>

#include <deque>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

/// Throws Error(invalid_argument): `op` has no meaning for a value that is one value on all replicas.
[[noreturn]] LOCKSTEP_API void throw_no_sum_of_one_value(ReduceOp op, const char* kind);

/// mean, min, max, band and bor of a value that all replicas share is that value.
[[nodiscard]] constexpr bool keeps_one_value(ReduceOp op) noexcept {
  return op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::bxor;
}

template <class T>
struct component_type {
  using type = T;
};
template <class T>
struct component_type<PerReplica<T>> {
  using type = T;
};
template <class T>
struct component_type<Mirrored<T>> {
  using type = T;
};

/// What the reduction of a leaf gives: Result if the caller named one, a Tensor for a variable, else the component's
/// owning type.
template <class Result, class Leaf>
struct reduced {
  using type = std::conditional_t<std::is_void_v<Result>, owning_t<typename component_type<Leaf>::type>, Result>;
};
template <class Leaf>
  requires stays_whole<Leaf>
struct reduced<void, Leaf> {
  using type = Tensor;
};
template <class Result, class Leaf>
using reduced_t = typename reduced<Result, Leaf>::type;

/// The items of one reduction, with the views that they refer to.
class ItemList {
 public:
  /// Views of one leaf's components; `outputs` are filled in later, since results move while their tree is built.
  template <class T>
  void add_inputs(const PerReplica<T>& value) {
    std::vector<ConstTensorView>& views = inputs_.emplace_back();
    for (int i = 0; i < value.size(); ++i) views.push_back(tensor_traits<T>::view(value.component(i)));
  }
  template <class T>
  void add_input(const T& value) {
    inputs_.emplace_back().push_back(tensor_traits<T>::view(value));
  }
  void add_outputs(std::vector<TensorView> views) { outputs_.push_back(std::move(views)); }
  [[nodiscard]] std::vector<Item> items() const {
    std::vector<Item> result;
    for (std::size_t k = 0; k < inputs_.size(); ++k) result.push_back({inputs_[k], outputs_[k]});
    return result;
  }

 private:
  // deque: the views stay where they are
  std::deque<std::vector<ConstTensorView>> inputs_;
  std::deque<std::vector<TensorView>> outputs_;
};

}  // namespace lockstep::detail
