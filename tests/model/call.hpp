// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A random call of a strategy, made from a seed. Equal seeds give equal calls on all ranks.

#pragma once

#include "model/model.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// splitmix64.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t word = state_ += 0x9e3779b97f4a7c15U;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31);
  }
  /// A number that is at least 0 and less than `sides`.
  int roll(int sides) { return static_cast<int>(next() % static_cast<std::uint64_t>(sides)); }
  /// True in one of `sides` cases.
  bool one_in(int sides) { return roll(sides) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(roll(static_cast<int>(values.size())))];
  }

 private:
  std::uint64_t state_;
};

enum class Kind : std::uint8_t {
  reduce,
  reduce_along,
  gather,
  reduce_to,
  batch_reduce_to,
  all_reduce,
  all_gather,
  broadcast,
  merge_call,
  local_results,
  run,
  update,
  variable,
  pairs,
};
inline constexpr auto kind_names = std::to_array<std::string_view>(
    {"reduce", "reduce along axes", "gather", "reduce_to", "batch_reduce_to", "all_reduce", "all_gather", "broadcast",
     "merge_call", "local_results", "run", "update", "variable", "batch_reduce_to of values of all kinds"});
inline constexpr int kind_count = static_cast<int>(kind_names.size());
[[nodiscard]] constexpr std::string_view name_of(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

/// Where a call for cross-replica context is made.
enum class Place : std::uint8_t { outside, scope, merge_call, update };

enum class Target : std::uint8_t { value, device, device_name, other_device, variable };
inline constexpr int target_count = 5;

/// What one rank does differently.
enum class Change : std::uint8_t { op, axis, dtype, shape, structure, target, root, result, call };
inline constexpr auto change_names = std::to_array<std::string_view>(
    {"op", "axis", "dtype", "shape", "structure", "destination", "root", "result type", "call"});
inline constexpr int change_count = static_cast<int>(change_names.size());

/// The arguments of a call.
struct Call {
  std::uint64_t seed = 0;
  Kind kind = Kind::reduce;
  std::size_t nest = 0;  ///< index in the table of nests
  Place place = Place::outside;
  ReduceOp op = ReduceOp::sum;
  bool by_name = false;    ///< whether sum and mean are given as text
  bool as_double = false;  ///< whether `reduce` has the result type double
  std::vector<int> axes;
  int axis = 0;
  int root = 0;
  Target target = Target::value;
  int pairs = 1;                ///< number of values of batch_reduce_to
  std::uint64_t structure = 0;  ///< seed of the sizes of nodes and the shapes of leaves
  std::uint64_t values = 0;     ///< seed of the elements
  std::vector<DType> pool;      ///< dtypes of the Tensors
  int rank = -1;                ///< number of axes of the Tensors; -1: any
  std::optional<int> varying;   ///< the axis along which the extents of replicas differ
  int changed_leaf = -1;        ///< the leaf that has another dtype or shape
  int changed_axis = -1;        ///< the axis that has another extent; -1: another dtype
};
[[nodiscard]] std::string to_string(const Call& call);

/// The facts about a kind of nests that decide which arguments are valid.
struct NestFacts {
  std::string name;
  std::optional<DType> dtype;  ///< of the leaves with a static type
  bool has_numbers = false;
  bool only_numbers = false;
  bool has_lists = false;
  bool is_leaf = false;     ///< a single leaf, as reduce_to takes
  bool in_replicas = true;  ///< whether replicas can have it; false if it has mirrored leaves
};

/// Whether nests of this type can be an argument of the call.
[[nodiscard]] bool fits(Kind kind, const NestFacts& nest);

[[nodiscard]] Layout make_layout(std::uint64_t seed);
/// Most of the calls are valid; the others must be refused by all ranks.
[[nodiscard]] Call make_call(std::uint64_t seed, const Layout& layout, const std::vector<NestFacts>& nests);

}  // namespace lockstep::test
