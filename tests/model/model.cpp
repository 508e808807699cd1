// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/model.hpp"

#include "model/typed.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <set>
#include <type_traits>

namespace lockstep::test {
namespace {

/// The type in which the elements of T are added and divided.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

Answer refused() { return {.error = Code::invalid_argument, .leaves = {}}; }

bool is_real(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}
bool is_whole(DType dtype) { return !is_real(dtype) && dtype != DType::boolean; }

/// The dtype of the sums that a mean divides.
DType total_dtype(ReduceOp op, DType dtype) {
  if (dtype == DType::f16 || dtype == DType::bf16) return DType::f32;
  return op == ReduceOp::mean && is_whole(dtype) ? DType::f64 : dtype;
}

/// Whether one value that all replicas share has this reduction: it is the value itself.
bool keeps_one_value(ReduceOp op) { return op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::bxor; }

bool is_shared(const LeafValue& leaf, const Layout& layout) {
  return leaf.share == Share::mirrored || (leaf.share == Share::plain && !layout.once_per_rank());
}

std::vector<Elements> leaf_of_all(const ReplicaLeaves& values, std::size_t k) {
  std::vector<Elements> result;
  for (const Leaves& leaves : values) result.push_back(leaves[k].elements);
  return result;
}

/// Whether all replicas have the dtype and the extents of replica 0, except along the axes of `free`.
bool match(const std::vector<Elements>& values, const std::set<std::size_t>& free = {}) {
  const Elements& first = values.front();
  return std::all_of(values.begin(), values.end(), [&](const Elements& value) {
    if (value.dtype != first.dtype || value.shape.size() != first.shape.size()) return false;
    for (std::size_t i = 0; i < first.shape.size(); ++i) {
      if (!free.contains(i) && value.shape[i] != first.shape[i]) return false;
    }
    return true;
  });
}

/// a + b; integers wrap.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

/// Adds the elements along `axes` in row-major order, in the type of the total.
Elements sum_along(ReduceOp op, const std::set<std::size_t>& axes, const Elements& value) {
  Elements total{total_dtype(op, value.dtype), {}, {}};
  std::vector<std::size_t> strides(value.shape.size());
  std::size_t stride = 1;
  for (std::size_t i = value.shape.size(); i-- > 0;) {
    if (axes.contains(i)) continue;
    strides[i] = stride;
    stride *= static_cast<std::size_t>(value.shape[i]);
    total.shape.insert(total.shape.begin(), value.shape[i]);
  }
  total.bytes.resize(static_cast<std::size_t>(count_of(total.shape)) * size_of(total.dtype));
  with_type(value.dtype, [&]<class T>(T) {
    with_type(total.dtype, [&]<class Sum>(Sum) {
      if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<Sum, bool>) {
        for (std::int64_t n = 0; n < count_of(value.shape); ++n) {
          std::size_t to = 0;
          std::int64_t rest = n;
          for (std::size_t i = value.shape.size(); i-- > 0; rest /= value.shape[i])
            to += static_cast<std::size_t>(rest % value.shape[i]) * strides[i];
          const auto element = static_cast<SumOf<Sum>>(static_cast<SumOf<T>>(at<T>(value.bytes, n)));
          const auto index = static_cast<std::int64_t>(to);
          const auto before = static_cast<SumOf<Sum>>(at<Sum>(total.bytes, index));
          put<Sum>(total.bytes, index, Sum(sum_of(before, element)));
        }
      }
    });
  });
  return total;
}

/// The total divided by `count` if `op` is mean, rounded to the dtype of the result.
Elements finished(ReduceOp op, DType dtype, const Elements& total, std::int64_t count) {
  Elements result{op == ReduceOp::mean && is_whole(dtype) ? DType::f64 : dtype, total.shape, {}};
  result.bytes.resize(static_cast<std::size_t>(count_of(total.shape)) * size_of(result.dtype));
  with_type(total.dtype, [&]<class Sum>(Sum) {
    with_type(result.dtype, [&]<class T>(T) {
      if constexpr (!std::is_same_v<Sum, bool> && !std::is_same_v<T, bool>) {
        for (std::int64_t i = 0; i < count_of(total.shape); ++i) {
          auto sum = static_cast<SumOf<Sum>>(at<Sum>(total.bytes, i));
          if (op == ReduceOp::mean) sum = static_cast<SumOf<Sum>>(sum / static_cast<SumOf<Sum>>(count));
          put<T>(result.bytes, i, canonical(T(static_cast<SumOf<T>>(sum))));
        }
      }
    });
  });
  return result;
}

/// The elements as doubles, which hold them exactly.
Elements as_f64(const Elements& value) {
  Elements result{DType::f64, value.shape, Bytes(static_cast<std::size_t>(count_of(value.shape)) * sizeof(double))};
  with_type(value.dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < count_of(value.shape); ++i)
      put<double>(result.bytes, i, static_cast<double>(static_cast<SumOf<T>>(at<T>(value.bytes, i))));
  });
  return result;
}

/// a + b or a - b: integers wrap, 16-bit floats are computed in f32, a NaN is the canonical NaN.
Elements written(Write how, const Elements& copy, const Elements& value) {
  if (how == Write::assign) return value;
  Elements result = copy;
  with_type(copy.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      for (std::int64_t i = 0; i < count_of(copy.shape); ++i) {
        const T a = at<T>(copy.bytes, i);
        const T b = at<T>(value.bytes, i);
        if constexpr (std::is_integral_v<T>) {
          const auto x = static_cast<std::uint64_t>(a);
          const auto y = static_cast<std::uint64_t>(b);
          put<T>(result.bytes, i, static_cast<T>(how == Write::add ? x + y : x - y));
        } else {
          const auto x = static_cast<SumOf<T>>(a);
          const auto y = static_cast<SumOf<T>>(b);
          put<T>(result.bytes, i, canonical(T(how == Write::add ? x + y : x - y)));
        }
      }
    }
  });
  return result;
}

/// The share of a total that belongs to one replica; with integers, the first replicas get the remainder.
Elements share_of(const Elements& total, int replica, int replicas) {
  Elements result = total;
  with_type(total.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      for (std::int64_t i = 0; i < count_of(total.shape); ++i) {
        const T value = at<T>(total.bytes, i);
        if constexpr (std::is_integral_v<T>) {
          using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
          const auto n = static_cast<Wide>(replicas);
          Wide left = static_cast<Wide>(value) % n;
          Wide share = static_cast<Wide>(value) / n;
          for (int r = 0; left != 0; ++r) {  // deals the remainder one by one
            const bool negative = std::is_signed_v<T> && static_cast<std::int64_t>(left) < 0;
            if (r == replica) share = negative ? share - 1 : share + 1;
            left = negative ? left + 1 : left - 1;
          }
          put<T>(result.bytes, i, static_cast<T>(share));
        } else {
          put<T>(result.bytes, i, T(static_cast<SumOf<T>>(value) / static_cast<SumOf<T>>(replicas)));
        }
      }
    }
  });
  return result;
}

}  // namespace

std::int64_t count_of(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

int Layout::replicas() const { return std::accumulate(counts.begin(), counts.end(), 0); }
int Layout::first(int rank) const { return std::accumulate(counts.begin(), counts.begin() + rank, 0); }

std::string to_string(const Layout& layout) {
  std::string text;
  for (const int count : layout.counts) text += (text.empty() ? "" : ",") + std::to_string(count);
  return text;
}

bool is_defined(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::max: return true;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return !is_real(dtype);
    default: return dtype != DType::boolean;
  }
}

std::optional<std::set<std::size_t>> resolved(const std::vector<int>& axes, const Extents& shape) {
  std::set<std::size_t> result;
  const int rank = static_cast<int>(shape.size());
  for (const int axis : axes) {
    if (axis < -rank || axis >= rank) return std::nullopt;
    if (!result.insert(static_cast<std::size_t>(axis < 0 ? axis + rank : axis)).second) return std::nullopt;
  }
  return result;
}

Elements reduce_replicas(ReduceOp op, const std::vector<Elements>& values) {
  std::vector<Bytes> bytes;
  for (const Elements& value : values) bytes.push_back(value.bytes);
  const DType dtype = values.front().dtype;
  const DType result = op == ReduceOp::mean && is_whole(dtype) ? DType::f64 : dtype;
  return {result, values.front().shape, canonical_reduce(op, dtype, bytes)};
}

Answer reduce_leaves(ReduceOp op, const ReplicaLeaves& values, const Layout& layout, ResultType type) {
  Answer answer;
  for (std::size_t k = 0; k < values.front().size(); ++k) {
    LeafValue leaf = values.front()[k];
    if (is_shared(leaf, layout)) {
      if (layout.replicas() > 1 && !keeps_one_value(op)) return refused();
    } else {
      const bool loses_fractions =
          op == ReduceOp::mean && type == ResultType::own && leaf.form != Form::tensor && is_whole(leaf.elements.dtype);
      const std::vector<Elements> of_all = leaf_of_all(values, k);
      if (!is_defined(op, leaf.elements.dtype) || loses_fractions || !match(of_all)) return refused();
      leaf.elements = reduce_replicas(op, of_all);
    }
    if (type == ResultType::f64) {
      const DType dtype = leaf.elements.dtype;
      if (dtype == DType::i64 || dtype == DType::u64 || dtype == DType::boolean) return refused();
      leaf.elements = as_f64(leaf.elements);
    }
    answer.leaves.push_back(leaf);
  }
  return answer;
}

Answer reduce_leaves_along(ReduceOp op, const std::vector<int>& axes, const ReplicaLeaves& values, const Layout& layout,
                           Forms forms) {
  if (axes.empty() && forms == Forms::only_tensors) return reduce_leaves(op, values, layout);
  if (op != ReduceOp::sum && op != ReduceOp::mean) return refused();
  Answer answer;
  const Leaves& first = values.front();
  for (std::size_t k = 0; k < first.size(); ++k) {
    LeafValue leaf = first[k];
    const bool shared = is_shared(leaf, layout);
    const auto along = resolved(axes, leaf.elements.shape);
    const bool is_typed = leaf.form != Form::tensor;
    if (!along || !is_defined(op, leaf.elements.dtype)) return refused();
    if (shared && layout.replicas() > 1 && !keeps_one_value(op)) return refused();
    if (is_typed &&
        (along->size() != leaf.elements.shape.size() || (op == ReduceOp::mean && is_whole(leaf.elements.dtype))))
      return refused();
    std::vector<Elements> of_all = leaf_of_all(values, k);
    if (shared) of_all.resize(1);
    if (!match(of_all, *along)) return refused();
    std::vector<Elements> totals;
    std::int64_t count = 0;
    for (const Elements& value : of_all) {
      totals.push_back(sum_along(op, *along, value));
      std::int64_t own = 1;
      for (const std::size_t axis : *along) own *= value.shape[axis];
      count += own;
    }
    const Elements total = shared ? totals.front() : reduce_replicas(ReduceOp::sum, totals);
    leaf.elements = finished(op, leaf.elements.dtype, total, count);
    if (is_typed) leaf.form = Form::number;
    answer.leaves.push_back(leaf);
  }
  return answer;
}

Answer gather_leaves(int axis, const ReplicaLeaves& values, int replica) {
  Answer answer;
  for (std::size_t k = 0; k < values.front().size(); ++k) {
    LeafValue leaf = values[static_cast<std::size_t>(replica)][k];
    if (leaf.share == Share::per_replica) {
      const auto along = resolved({axis}, leaf.elements.shape);
      const std::vector<Elements> of_all = leaf_of_all(values, k);
      if (!along || !match(of_all, *along)) return refused();
      const std::size_t a = *along->begin();
      Elements& joined = leaf.elements;
      joined.shape[a] = 0;
      for (const Elements& value : of_all) joined.shape[a] += value.shape[a];
      joined.bytes.clear();
      std::int64_t outer = 1;
      for (std::size_t i = 0; i < a; ++i) outer *= joined.shape[i];
      for (std::int64_t o = 0; o < outer; ++o) {
        for (const Elements& value : of_all) {
          const auto row = static_cast<std::ptrdiff_t>(value.bytes.size()) / outer;
          joined.bytes.insert(joined.bytes.end(), value.bytes.begin() + o * row, value.bytes.begin() + (o + 1) * row);
        }
      }
    }
    answer.leaves.push_back(leaf);
  }
  return answer;
}

std::optional<Slices> reduce_slices(ReduceOp op, const std::vector<Slices>& values) {
  if (op != ReduceOp::sum && op != ReduceOp::mean) return std::nullopt;
  Slices result = values.front();
  for (std::size_t r = 1; r < values.size(); ++r) {
    for (const auto part : {&Slices::values, &Slices::indices}) {
      Elements& joined = result.*part;
      const Elements& more = values[r].*part;
      joined.shape[0] += more.shape[0];
      joined.bytes.insert(joined.bytes.end(), more.bytes.begin(), more.bytes.end());
    }
  }
  if (op == ReduceOp::sum) return result;
  const Elements sum = result.values;
  result.values.dtype = is_whole(sum.dtype) ? DType::f64 : sum.dtype;
  result.values.bytes.resize(static_cast<std::size_t>(count_of(sum.shape)) * size_of(result.values.dtype));
  with_type(sum.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      using Quotient = std::conditional_t<std::is_integral_v<T>, double, SumOf<T>>;
      using Result = std::conditional_t<std::is_integral_v<T>, double, T>;
      for (std::int64_t i = 0; i < count_of(sum.shape); ++i) {
        const auto row = static_cast<Quotient>(static_cast<SumOf<T>>(at<T>(sum.bytes, i)));
        put<Result>(result.values.bytes, i, canonical(Result(row / static_cast<Quotient>(values.size()))));
      }
    }
  });
  return result;
}

ModelVariable::ModelVariable(const Elements& initial, VariableSynchronization synchronization,
                             VariableAggregation aggregation, const Layout& layout)
    : synchronization_(synchronization),
      aggregation_(aggregation),
      layout_(layout),
      copies_(static_cast<std::size_t>(layout.replicas()), initial) {}

bool ModelVariable::exists(DType dtype, VariableSynchronization synchronization, VariableAggregation aggregation) {
  if (synchronization == VariableSynchronization::none) return false;
  if (aggregation == VariableAggregation::sum) return dtype != DType::boolean;
  return aggregation != VariableAggregation::mean || is_real(dtype);
}

std::optional<Code> ModelVariable::write_in_step(Write how, const std::vector<Elements>& values) {
  if (how != Write::assign && values.front().dtype == DType::boolean) return Code::invalid_argument;
  if (is_on_read()) {
    for (std::size_t r = 0; r < copies_.size(); ++r) copies_[r] = written(how, copies_[r], values[r]);
    return {};
  }
  if (aggregation_ == VariableAggregation::none) return Code::invalid_argument;
  const Elements value = aggregation_ == VariableAggregation::only_first_replica ? values.front()
                         : aggregation_ == VariableAggregation::sum ? reduce_replicas(ReduceOp::sum, values)
                                                                    : reduce_replicas(ReduceOp::mean, values);
  for (Elements& copy : copies_) copy = written(how, copy, value);
  return {};
}

std::optional<Code> ModelVariable::write(Write how, const Elements& value) {
  const bool divides = is_on_read() && aggregation_ == VariableAggregation::sum;
  if (how != Write::assign && (value.dtype == DType::boolean || divides)) return Code::invalid_argument;
  for (int r = 0; r < layout_.replicas(); ++r) {
    Elements& copy = copies_[static_cast<std::size_t>(r)];
    copy = divides ? share_of(value, r, layout_.replicas()) : written(how, copy, value);
  }
  return {};
}

void ModelVariable::update(int replica, Write how, const Elements& value) {
  Elements& copy = copies_[static_cast<std::size_t>(replica)];
  copy = written(how, copy, value);
}

Answer ModelVariable::read(int rank) const {
  const auto one = [](const Elements& value) { return Answer{{}, {{Form::tensor, Share::plain, value}}}; };
  if (!is_on_read()) return one(copies_[static_cast<std::size_t>(layout_.first(rank))]);
  switch (aggregation_) {
    case VariableAggregation::none: return refused();
    case VariableAggregation::only_first_replica: return one(copies_.front());
    default: break;
  }
  if (copies_.size() == 1) return one(copies_.front());
  return one(reduce_replicas(aggregation_ == VariableAggregation::sum ? ReduceOp::sum : ReduceOp::mean, copies_));
}

Answer ModelVariable::reduce(ReduceOp op, int rank) const {
  if (!is_on_read()) {
    if (layout_.replicas() > 1 && !keeps_one_value(op)) return refused();
    return read(rank);
  }
  if (!is_defined(op, copies_.front().dtype)) return refused();
  return {{}, {{Form::tensor, Share::per_replica, reduce_replicas(op, copies_)}}};
}

}  // namespace lockstep::test
