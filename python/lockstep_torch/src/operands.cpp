// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "operands.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <lockstep/base/error.hpp>

#include <algorithm>

namespace lockstep_torch {
namespace {

using lockstep::DType;

[[noreturn]] void refuse(const std::string& call, const std::string& text) {
  throw lockstep::Error(lockstep::Code::invalid_argument, call + ": " + text);
}

/// How lockstep sees one element of a tensor: as `count` elements of type `dtype`.
struct ElementType {
  DType dtype;
  std::int64_t count;
};

std::optional<DType> real_dtype(at::ScalarType type) {
  switch (type) {
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kFloat: return DType::f32;
    case at::kDouble: return DType::f64;
    case at::kChar: return DType::i8;
    case at::kShort: return DType::i16;
    case at::kInt: return DType::i32;
    case at::kLong: return DType::i64;
    case at::kByte: return DType::u8;
    case at::ScalarType::UInt16: return DType::u16;
    case at::ScalarType::UInt32: return DType::u32;
    case at::ScalarType::UInt64: return DType::u64;
    case at::kBool: return DType::boolean;
    default: return std::nullopt;
  }
}

ElementType element_type(at::ScalarType type) {
  if (const auto real = real_dtype(type)) return {*real, 1};
  if (c10::isComplexType(type)) return {real_dtype(c10::toRealValueType(type)).value(), 2};
  return {DType::u8, static_cast<std::int64_t>(c10::elementSize(type))};
}

/// Whether the elements are in memory as they are, one after another.
bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

lockstep::Shape shape_of(const at::Tensor& tensor, const ElementType& type, std::optional<std::int64_t> rows) {
  const std::int64_t count = tensor.numel() * type.count;
  if (!rows) return {count};
  // without rows, the other extents say how long a row is
  std::int64_t row = type.count;
  for (std::int64_t axis = 1; axis < tensor.dim(); ++axis) row *= tensor.size(axis);
  return {*rows, row};
}

}  // namespace

lockstep::ReduceOp reduce_op(const std::string& call, const c10d::ReduceOp& op, at::ScalarType type) {
  using Op = lockstep::ReduceOp;
  const auto name = [&]() -> std::pair<Op, std::string> {
    switch (op.op_) {
      case c10d::ReduceOp::SUM: return {type == at::kBool ? Op::bor : Op::sum, "SUM"};
      case c10d::ReduceOp::AVG: return {Op::mean, "AVG"};
      case c10d::ReduceOp::PRODUCT: return {type == at::kBool ? Op::band : Op::prod, "PRODUCT"};
      case c10d::ReduceOp::MIN: return {Op::min, "MIN"};
      case c10d::ReduceOp::MAX: return {Op::max, "MAX"};
      case c10d::ReduceOp::BAND: return {Op::band, "BAND"};
      case c10d::ReduceOp::BOR: return {Op::bor, "BOR"};
      case c10d::ReduceOp::BXOR: return {Op::bxor, "BXOR"};
      case c10d::ReduceOp::PREMUL_SUM:
        refuse(call, "PREMUL_SUM is not supported; multiply the tensor by the factor, and use SUM");
      default: refuse(call, "unknown ReduceOp " + std::to_string(static_cast<int>(op.op_)));
    }
  }();
  const std::string what = name.second + " of " + at::toString(type);
  if (c10::isComplexType(type)) {
    if (name.first == Op::sum || name.first == Op::mean) return name.first;
    refuse(call, what + " is not supported; of complex numbers there are SUM and AVG");
  }
  const auto dtype = real_dtype(type);
  if (!dtype) refuse(call, what + " is not supported; convert the tensor to a type that lockstep reduces");
  if (name.first == Op::mean && !lockstep::is_floating_point(*dtype))
    refuse(call, what + " is not supported, because a mean is not an integer; use SUM");
  if (!lockstep::supports(name.first, *dtype)) refuse(call, what + " is not supported");
  return name.first;
}

std::int64_t elements_per_element(at::ScalarType type) { return element_type(type).count; }

void Operands::check(const at::Tensor& tensor) const {
  if (!tensor.defined()) refuse(call_, "a tensor is undefined");
  if (!tensor.device().is_cpu()) {
    refuse(call_, "a tensor is on " + tensor.device().str() +
                      ", but the backend lockstep takes tensors in host memory only; for GPUs, use "
                      "init_process_group(\"cpu:lockstep,cuda:nccl\")");
  }
  if (tensor.layout() != at::kStrided)
    refuse(call_, c10::str("a tensor has layout ", tensor.layout(), "; only dense tensors are supported"));
}

lockstep::ConstTensorView Operands::input(const at::Tensor& tensor, std::optional<std::int64_t> rows) {
  check(tensor);
  at::Tensor plain = tensor;
  if (!is_plain(tensor)) {
    const at::NoGradGuard no_grad;
    plain = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
    plain.copy_(tensor);
  }
  const ElementType type = element_type(tensor.scalar_type());
  kept_.push_back(plain);
  return {plain.const_data_ptr(), type.dtype, shape_of(tensor, type, rows), {}};
}

lockstep::TensorView Operands::output(const at::Tensor& tensor, std::optional<std::int64_t> rows) {
  check(tensor);
  at::Tensor plain = tensor;
  if (!is_plain(tensor)) {
    plain = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
    copies_.emplace_back(tensor, plain);
  }
  const ElementType type = element_type(tensor.scalar_type());
  kept_.push_back(plain);
  return {plain.mutable_data_ptr(), type.dtype, shape_of(tensor, type, rows), {}};
}

void Operands::add(const std::optional<at::Tensor>& input, const std::optional<at::Tensor>& output,
                   std::optional<std::int64_t> rows_of_input, std::optional<std::int64_t> rows_of_output) {
  Entry& entry = entries_.emplace_back();
  if (input) entry.inputs.push_back(this->input(*input, rows_of_input));
  if (output) entry.outputs.push_back(this->output(*output, rows_of_output));
}

void Operands::add_replicas(const std::vector<at::Tensor>& inputs, const at::Tensor& output) {
  Entry& entry = entries_.emplace_back();
  for (const at::Tensor& tensor : inputs) entry.inputs.push_back(input(tensor));
  entry.outputs.push_back(this->output(output));
}

void Operands::add_in_place(const at::Tensor& tensor) {
  check(tensor);
  if (is_plain(tensor)) {
    const lockstep::TensorView view = output(tensor);
    entries_.push_back({{view}, {view}});
  } else {
    const lockstep::ConstTensorView view = input(tensor);
    copies_.emplace_back(tensor, kept_.back());
    entries_.push_back({{view}, {{kept_.back().mutable_data_ptr(), view.dtype, view.shape, {}}}});
  }
}

at::Tensor Operands::join(const std::vector<at::Tensor>& parts) const {
  for (const at::Tensor& part : parts) {
    check(part);
    if (part.scalar_type() != parts.front().scalar_type())
      refuse(call_, c10::str("one tensor has elements of type ", parts.front().scalar_type(), ", another one of type ",
                             part.scalar_type()));
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  flat.reserve(parts.size());
  for (const at::Tensor& part : parts) flat.push_back(part.reshape({-1}));
  return at::cat(flat).resolve_conj().resolve_neg();
}

at::Tensor Operands::join_outputs(const std::vector<at::Tensor>& parts) {
  std::int64_t count = 0;
  bool are_neighbours = true;
  for (const at::Tensor& part : parts) {
    check(part);
    if (part.scalar_type() != parts.front().scalar_type())
      refuse(call_, c10::str("one tensor has elements of type ", parts.front().scalar_type(), ", another one of type ",
                             part.scalar_type()));
    are_neighbours = are_neighbours && is_plain(part) && part.storage().is_alias_of(parts.front().storage()) &&
                     part.storage_offset() == parts.front().storage_offset() + count;
    count += part.numel();
  }
  const at::Tensor& first = parts.front();
  const at::NoGradGuard no_grad;
  if (are_neighbours) return first.as_strided({count}, {1}, first.storage_offset());
  at::Tensor joined = at::empty({count}, first.options().requires_grad(false));
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    copies_.emplace_back(part, joined.narrow(0, begin, part.numel()).view(part.sizes()));
    begin += part.numel();
  }
  return joined;
}

void Operands::copy_at_the_end(const at::Tensor& target, const at::Tensor& source) {
  check(target);
  copies_.emplace_back(target, source);
}

std::span<const lockstep::Item> Operands::items() {
  items_.clear();
  for (const Entry& entry : entries_) items_.push_back({entry.inputs, entry.outputs});
  return items_;
}

void Operands::finish() {
  const at::NoGradGuard no_grad;
  for (const auto& [target, source] : copies_) target.copy_(source);
}

}  // namespace lockstep_torch
