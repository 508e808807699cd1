// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Prints distributed values as text: `PerReplica:{0: 1.5, 1: [2, 3]}`. For a PerReplica, the numbers before the colons
// are replica ids; for a Mirrored, they count the copies on this rank.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/per_replica.hpp>

#include <ostream>
#include <string>
#include <vector>

namespace lockstep {
namespace detail {

/// The elements as text: "[1, 2, 3]", "[[1, 2], [3, 4]]", "1.5". Elements on a GPU are copied to the host.
LOCKSTEP_API std::string elements_text(ConstTensorView view);

template <class T>
void print_component(std::ostream& out, const T& value) {
  if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (TensorLike<T>) {
    out << elements_text(tensor_traits<T>::view(value));
  } else {
    static_assert(TensorLike<T>, "a distributed value prints only if its components have operator<< or are tensors");
  }
}

template <class Distributed>
std::ostream& print_components(std::ostream& out, const char* name, int first, const Distributed& value) {
  out << name << ":{";
  for (int i = 0; i < value.size(); ++i) {
    if (i != 0) out << ", ";
    out << first + i << ": ";
    print_component(out, value.component(i));
  }
  return out << '}';
}

}  // namespace detail

/// Prints the elements, with brackets around each row. Local.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

template <class T>
std::ostream& operator<<(std::ostream& out, const PerReplica<T>& value) {
  return detail::print_components(out, "PerReplica", value.first_replica(), value);
}

template <class T>
std::ostream& operator<<(std::ostream& out, const Mirrored<T>& value) {
  return detail::print_components(out, "Mirrored", 0, value);
}

}  // namespace lockstep
