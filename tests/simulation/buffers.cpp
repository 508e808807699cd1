// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/buffers.hpp"

#include "races/races.hpp"
#include "simulation/node_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::simulation {
namespace {

/// An element of the input of a replica. Sums are exact in f32. The elements repeat after Buffers::period.
float value_of(int operation, int replica, int element) {
  const int sum = operation * 7 + replica * 13 + element * 3 + Buffers::period;  // an operation may have number -1
  return static_cast<float>(sum % Buffers::period - 9);
}

}  // namespace

Values::Values(Place place, int count) : count_(static_cast<std::size_t>(count)) {
  const std::size_t bytes = count_ * sizeof(float);
  if (NodeMemories* const memories = place.memories; memories != nullptr) {
    std::byte* const block = memories->allocate(place.member, bytes);
    if (block == nullptr) std::abort();  // the job needs more than a simulated rank has
    data_ = {reinterpret_cast<float*>(block), [memories, block, bytes](float*) { memories->free(block, bytes); }};
  } else {
    data_ = {new float[count_], std::default_delete<float[]>()};
  }
}

void Values::has_been_read() const { races::read(data_.get(), count_ * sizeof(float)); }

void Values::has_been_written() const { races::wrote(data_.get(), count_ * sizeof(float)); }

void Values::fill(float value) const {
  std::fill(all().begin(), all().end(), value);
  has_been_written();
}

Buffers::Buffers(const Operation& operation, int number, const ReplicaLayout& layout, int rank, Place place)
    : operation_(operation), number_(number), layout_(layout), rank_(rank), place_(place) {
  for (int element = 0; element < period; ++element) {
    float& sum = sums_[static_cast<std::size_t>(element)];
    for (int replica = 0; replica < layout.replicas(); ++replica) sum += value_of(number, replica, element);
  }
  if (operation.makes_communicator()) return;
  const int all = layout.replicas();
  const int local = layout.count(rank);
  const bool is_root = rank == operation.root;
  const int count = operation.count;
  switch (operation.kind) {
    case Kind::all_reduce: make(local, count, local, count); break;
    case Kind::reduce: make(local, count, is_root ? 1 : 0, count); break;
    case Kind::reduce_scatter: make(local, count * all, local, count); break;
    case Kind::all_gather: make(local, count, local, count * all); break;
    case Kind::gather: make(local, count, is_root ? 1 : 0, count * all); break;
    case Kind::broadcast: make(is_root ? 1 : 0, count, local, count); break;
    case Kind::barrier: break;
    case Kind::scatter: make(is_root ? 1 : 0, count * all, local, count); break;
    case Kind::all_to_all: make(local, count * all, local, count * all); break;
    case Kind::messages: make(number_of_messages(operation), count, number_of_messages(operation), count); break;
  }
}

void Buffers::end_by_failure() {
  for (const Values& values : values_) values.fill(-1e9F);
  for (const Values& result : results_) {
    result.has_been_read();
    left_.emplace_back(result.all().begin(), result.all().end());
  }
}

bool Buffers::is_left_alone() const {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (!std::equal(left_[i].begin(), left_[i].end(), results_[i].all().begin())) return false;
  }
  return true;
}

std::string Buffers::wrong() const {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    results_[i].has_been_read();
    const std::span<const float> result = results_[i].all();
    for (std::size_t k = 0; k < result.size(); ++k) {
      const float expected = expected_at(static_cast<int>(i), static_cast<int>(k));
      if (result[k] != expected) return fmt::format("element {} of output {} is {}, not {}", k, i, result[k], expected);
    }
  }
  return {};
}

/// Every fourth operation is on private memory, which other ranks cannot see.
Values Buffers::make_values(int count) const { return {number_ % 4 == 3 ? Place() : place_, count}; }

void Buffers::make(int inputs, int input_count, int outputs, int output_count) {
  const int first = first_input(rank_);
  for (int i = 0; i < inputs; ++i) {
    const std::span<float> values = values_.emplace_back(make_values(input_count)).all();
    for (int k = 0; k < input_count; ++k) values[static_cast<std::size_t>(k)] = value_of(number_, first + i, k);
    values_.back().has_been_written();
    inputs_.push_back({values.data(), DType::f32, Shape{input_count}, {}});
  }
  for (int i = 0; i < outputs; ++i) {
    const Values& values = results_.emplace_back(make_values(output_count));
    values.fill(-77.0F);
    outputs_.push_back({values.all().data(), DType::f32, Shape{output_count}, {}});
  }
}

/// The number of the first input of a rank, for value_of.
int Buffers::first_input(int rank) const {
  switch (operation_.kind) {
    case Kind::broadcast:
    case Kind::scatter: return 0;
    case Kind::messages: return rank * number_of_messages(operation_);
    default: return layout_.first(rank);
  }
}

float Buffers::expected_at(int output, int element) const {
  const int count = operation_.count;
  const int replica = layout_.first(rank_) + output;
  switch (operation_.kind) {
    case Kind::all_reduce:
    case Kind::reduce: return sum_of(element);
    case Kind::reduce_scatter: return sum_of(replica * count + element);
    case Kind::all_gather:
    case Kind::gather: return value_of(number_, element / count, element % count);
    case Kind::broadcast: return value_of(number_, 0, element);
    case Kind::scatter: return value_of(number_, 0, replica * count + element);
    case Kind::all_to_all: return value_of(number_, element / count, replica * count + element % count);
    case Kind::messages:
      return value_of(number_, first_input(partners(operation_, rank_, layout_.ranks()).source) + output, element);
    case Kind::barrier: break;
  }
  return 0;
}

}  // namespace lockstep::simulation
