// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "scale/scaled_call.hpp"

#include <lockstep/base/error.hpp>

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace lockstep::detail {
namespace {

constexpr int root_rank = 0;

/// A value of varying magnitude: sums depend on the order.
float leaf(int rank, std::int64_t element) {
  std::uint64_t x = static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15u +
                    static_cast<std::uint64_t>(element) * 0xD1B54A32D192ED03u + 1;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  x *= 0x94D049BB133111EBu;
  x ^= x >> 31;
  return (static_cast<float>(x & 0xFFFFFF) / 8388608.0f - 1.0f) * static_cast<float>(1u << (x >> 60));
}

/// The definition: neighbours of equal size first.
float canonical_sum(int ranks, std::int64_t element) {
  std::vector<float> values(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) values[static_cast<std::size_t>(rank)] = leaf(rank, element);
  for (std::size_t width = 1; width < values.size(); width *= 2) {
    for (std::size_t i = 0; i + width < values.size(); i += 2 * width) values[i] += values[i + width];
  }
  return values.front();
}

/// The most by which the sum of another order may differ from that of the canonical tree.
float tolerance(int ranks, std::int64_t element) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += std::abs(leaf(rank, element));
  return sum * 1e-5f;
}

Call call_of(OperationKind kind) {
  Call call{kind};
  if (call.traits().has_root()) call.root = root_rank;
  return call;
}

PartBegins parts_of_one_row(int parts) {
  PartBegins begins(static_cast<std::size_t>(parts) + 1);
  std::iota(begins.begin(), begins.end(), 0);
  return begins;
}

}  // namespace

OperationKind kind_of(std::string_view name) {
  using enum OperationKind;
  for (const OperationKind kind :
       {all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all}) {
    if (to_string(kind) == name) return kind;
  }
  throw Error(Code::invalid_argument, "no collective is called " + std::string(name), {});
}

ScaledCall::ScaledCall(OperationKind kind, int ranks, int rank, std::int64_t bytes)
    : call_(call_of(kind)), ranks_(ranks), rank_(rank) {
  const Traits& traits = call_.traits();
  const int parts = has_parts() ? ranks : 1;
  count_ = std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(sizeof(float)) / parts);
  const bool is_root = rank == call_.root;
  if (traits.inputs != Place::root || is_root)
    input_.resize(static_cast<std::size_t>(traits.gathers() ? count_ : count_ * parts));
  const bool gets_part = traits.has_own_outputs() && !traits.is_all_to_all();
  const bool is_in_place = traits.pattern == Pattern::broadcast && is_root;
  if ((traits.outputs != Place::root || is_root) && !is_in_place)
    output_.resize(static_cast<std::size_t>(gets_part ? count_ : count_ * parts));
  for (std::size_t e = 0; e < input_.size(); ++e) input_[e] = leaf(rank, static_cast<std::int64_t>(e));
}

bool ScaledCall::has_parts() const noexcept {
  const Traits& traits = call_.traits();
  return traits.gathers() || traits.has_own_outputs();
}

float* ScaledCall::output() noexcept {
  if (call_.traits().pattern == Pattern::broadcast && rank_ == call_.root) return input_.data();
  return output_.empty() ? nullptr : output_.data();
}

HostItem ScaledCall::item() {
  const Traits& traits = call_.traits();
  const bool is_one_part = traits.gathers() || traits.scatters() || !has_parts();
  HostItem item;
  item.shape = Shape{is_one_part ? count_ : count_ * ranks_};
  if (input() != nullptr) item.inputs.push_back(input());
  if (output() != nullptr) item.outputs.push_back(output());
  if (traits.has_parts()) {
    item.row_elements = count_;
    item.input_parts.push_back(parts_of_one_row(ranks_));
    item.output_parts.push_back(parts_of_one_row(traits.scatters() ? 1 : ranks_));
  }
  return item;
}

void ScaledCall::clear_output() { std::fill(output_.begin(), output_.end(), std::numeric_limits<float>::quiet_NaN()); }

float ScaledCall::expected(std::int64_t element) const {
  const Traits& traits = call_.traits();
  if (traits.reduces()) return canonical_sum(ranks_, traits.has_own_outputs() ? rank_ * count_ + element : element);
  if (traits.gathers()) return leaf(static_cast<int>(element / count_), element % count_);
  if (traits.scatters()) return leaf(call_.root, rank_ * count_ + element);
  if (traits.is_all_to_all()) return leaf(static_cast<int>(element / count_), rank_ * count_ + element % count_);
  return leaf(call_.root, element);
}

bool ScaledCall::is_right(std::int64_t element, Sums sums) const {
  const float value = output_[static_cast<std::size_t>(element)];
  const float wanted = expected(element);
  if (value == wanted) return true;
  if (sums == Sums::canonical || !call_.traits().reduces()) return false;
  const std::int64_t of_input = call_.traits().has_own_outputs() ? rank_ * count_ + element : element;
  return std::abs(value - wanted) <= tolerance(ranks_, of_input);
}

long ScaledCall::wrong(Sums sums) const {
  const auto size = static_cast<std::int64_t>(output_.size());
  const std::int64_t step = call_.traits().reduces() ? std::max<std::int64_t>(1, size / 1000) : 1;
  long wrong = 0;
  for (std::int64_t e = 0; e < size; e += step) wrong += is_right(e, sums) ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

}  // namespace lockstep::detail
