// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arguments of one collective of the interface for C. An argument that C++ types cannot represent is refused here;
// the other ranks of the call get the same text. Communicator checks everything else.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>

#include "collectives/engine/engine.hpp"
#include "interop/c_handles.hpp"
#include "interop/c_last_error.hpp"
#include "interop/c_line.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::interop {

/// The ranks that get an error of this rank's arguments.
struct Peers {
  enum class Kind : std::uint8_t { all_ranks, receiver, sender };
  Kind kind = Kind::all_ranks;
  int rank = -1;  ///< of the receiver or the sender
};

/// A number of elements for each rank.
struct Counts {
  std::span<const std::int64_t> of_ranks;
  std::int64_t here = 0;  ///< that of this rank
  std::int64_t all = 0;   ///< their sum
};

class CCall {
 public:
  CCall(std::string_view name, const lockstep_communicator* handle, const char* file, int line, Peers peers = {})
      : name_(name), communicator_(communicator_of(handle, name)), caller_(file, line), peers_(peers) {}

  [[nodiscard]] const Communicator& communicator() const noexcept { return communicator_; }
  [[nodiscard]] ReduceOptions options() const {
    ReduceOptions options;
    options.where = caller_.location();
    return options;
  }

  [[nodiscard]] DType dtype(int number) const;
  [[nodiscard]] ReduceOp op(int number) const;
  /// As above. Refuses a result of another dtype in the memory of the input: one of the two would have a wrong size.
  [[nodiscard]] ReduceOp op(int number, DType dtype, const void* input, const void* output) const;
  /// `visit` of a zero of the type `dtype`, which must be float or double.
  template <class Visit>
  [[nodiscard]] double with_floats(int number, const Visit& visit) const {
    const DType type = dtype(number);
    if (type == DType::f32) return visit(float{});
    if (type == DType::f64) return visit(double{});
    refuse("dtype is {}; it must be LOCKSTEP_F32 or LOCKSTEP_F64", to_string(type));
  }
  /// `count`, the argument of that name.
  [[nodiscard]] std::int64_t elements(std::int64_t count) const { return elements(count, "count", 1); }
  /// `count` times the number of ranks.
  [[nodiscard]] std::int64_t elements_of_all(std::int64_t count) const {
    return elements(count, "count", communicator_.size());
  }
  /// The numbers of elements of the ranks, from the argument named `argument`.
  [[nodiscard]] Counts counts(const std::int64_t* counts, std::string_view argument) const;

  /// Throws Error(invalid_argument) on this rank, and makes the call fail on its peers.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    refuse_with(fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  /// `parts * count`, where `count` is an argument named `argument`.
  [[nodiscard]] std::int64_t elements(std::int64_t count, std::string_view argument, int parts) const;
  [[noreturn]] void refuse_with(const std::string& text) const;

  std::string_view name_;
  const Communicator& communicator_;
  CallerLine caller_;
  Peers peers_;
};

/// The tensors of a call, of one dimension.
[[nodiscard]] inline ConstTensorView input_of(const void* data, DType dtype, std::int64_t count) {
  return {data, dtype, Shape{count}};
}
[[nodiscard]] inline TensorView output_of(void* data, DType dtype, std::int64_t count) {
  return {data, dtype, Shape{count}, Device{}};
}

/// Runs `body(call)`, and returns the code of its error.
template <class Body>
int run_call(std::string_view name, const lockstep_communicator* handle, const char* file, int line, const Body& body,
             Peers peers = {}) noexcept {
  return code_of([&] { body(CCall(name, handle, file, line, peers)); });
}

}  // namespace lockstep::interop
