// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/arguments.hpp"

#include "base/check.hpp"
#include "schedule/canonical_tree.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

/// One step of a fold: push an input on the stack, and then combine the two topmost entries `merges` times.
struct Step {
  std::size_t input = 0;
  int merges = 0;
};

/// The steps of a subtree of a fold, and the stack depth that the steps need.
struct Program {
  std::vector<Step> steps;
  int depth = 1;
};

/// Returns a program that executes both programs and then merges their values. The program with the deeper stack comes
/// first, because the other program runs with one more value on the stack. The order of the operands does not change a
/// result, except for the bits of a NaN in a partial result.
Program merged(Program left, Program right) {
  if (left.depth < right.depth) std::swap(left, right);
  left.depth = std::max(left.depth, right.depth + 1);
  left.steps.insert(left.steps.end(), right.steps.begin(), right.steps.end());
  ++left.steps.back().merges;
  return left;
}

/// The steps of the same tree, with the inputs in the order that needs the smallest stack. For n inputs, the stack has
/// at most log2(n) + 1 entries.
std::vector<Step> shallowest(std::span<const std::uint8_t> merges) {
  std::vector<Program> stack;
  for (std::size_t k = 0; k < merges.size(); ++k) {
    stack.push_back({.steps = {{k, 0}}});
    for (int merge = 0; merge < merges[k]; ++merge) {
      Program right = std::move(stack.back());
      stack.pop_back();
      stack.back() = merged(std::move(stack.back()), std::move(right));
    }
  }
  return std::move(stack.back().steps);
}

/// The merges that follow each group of four inputs and the group of the remaining inputs.
struct Groups {
  std::array<std::uint8_t, FoldArguments::most_groups> merges = {};
  std::size_t count = 0;
};

/// Returns no groups unless all of them are combined like the leaves of a tree, and the stack of a GroupedInputs is
/// sufficient.
Groups groups_of(std::span<const std::uint8_t> merges) {
  static constexpr int of_four[]{0, 1, 0, 2};
  static constexpr int last_of[]{0, 0, 1, 1, 2};  // indexed by the number of inputs
  Groups groups;
  for (std::size_t first = 0; first < merges.size(); first += 4) {
    const std::size_t inputs = std::min<std::size_t>(4, merges.size() - first);
    for (std::size_t k = 0; k + 1 < inputs; ++k) {
      if (merges[first + k] != of_four[k]) return {};
    }
    const int left = merges[first + inputs - 1] - last_of[inputs];
    if (left < 0) return {};
    groups.merges[groups.count++] = static_cast<std::uint8_t>(left);
  }
  const int depth = stack_depth(std::span(groups.merges).first(groups.count));
  return depth <= FoldArguments::most_group_depth ? groups : Groups();
}

/// Whether element number `element` of each array has an address that is a multiple of `alignment_of(array)`.
template <class AlignmentOf>
bool are_aligned(std::span<const ArrayPlace> arrays, std::int64_t element, const AlignmentOf& alignment_of) {
  return std::all_of(arrays.begin(), arrays.end(), [&](const ArrayPlace& array) {
    const auto address = reinterpret_cast<std::uintptr_t>(array.begin) +
                         static_cast<std::uintptr_t>(element) * static_cast<std::uintptr_t>(array.element_bytes);
    return address % static_cast<std::uintptr_t>(alignment_of(array)) == 0;
  });
}

/// The first element from which on all arrays have aligned packs of `lanes` elements.
std::optional<std::int64_t> first_pack(int lanes, std::span<const ArrayPlace> arrays) {
  for (std::int64_t element = 0; element < lanes; ++element) {
    if (are_aligned(arrays, element,
                    [&](const ArrayPlace& array) { return std::min(word_bytes, lanes * array.element_bytes); })) {
      return element;
    }
  }
  return std::nullopt;
}

int chunk_bytes_for(std::size_t bytes) {
  constexpr std::size_t enough_blocks = 1024;  // enough to keep all multiprocessors busy
  constexpr std::size_t least = 4096;          // bytes that the threads of a block copy in one round
  constexpr std::size_t most = 16384;          // the fastest of 4 to 64 KiB on an H200
  return static_cast<int>(std::clamp(bytes / enough_blocks / least * least, least, most));
}

}  // namespace

Split split_of(std::int64_t count, int lanes, std::span<const ArrayPlace> arrays) {
  const std::optional<std::int64_t> first = first_pack(lanes, arrays);
  if (!first || *first >= count) return {count, 0, false};
  for (std::int64_t head = *first; head < std::min<std::int64_t>(count, line_bytes); head += lanes) {
    if (are_aligned(arrays, head, [](const ArrayPlace&) { return line_bytes; })) return {count, head, true};
  }
  return {count, *first, true};
}

FoldArguments fold_arguments(const Fold& fold, std::int64_t count, const FoldShape& shape) {
  LOCKSTEP_CHECK(supports(fold.op, fold.dtype));
  LOCKSTEP_CHECK(!fold.inputs.empty() && fold.inputs.size() == fold.merges.size());
  LOCKSTEP_CHECK(fold.inputs.size() <= Kernels::most_inputs && fold.outputs.size() <= Kernels::most_outputs);
  std::array<Step, Kernels::most_inputs> steps;
  for (std::size_t k = 0; k < fold.inputs.size(); ++k) steps[k] = {k, fold.merges[k]};
  const Groups groups = groups_of(fold.merges);
  if (stack_depth(fold.merges) > FoldArguments::most_depth) {  // not if there are groups
    const std::vector<Step> reordered = shallowest(fold.merges);
    std::copy(reordered.begin(), reordered.end(), steps.begin());
  }

  FoldArguments arguments;
  std::copy_n(groups.merges.begin(), groups.count, arguments.group_merges);
  std::array<ArrayPlace, Kernels::most_inputs + Kernels::most_outputs> arrays;
  std::size_t array_count = 0;
  for (const Step& step : std::span(steps).first(fold.inputs.size())) {
    const FoldInput& input = fold.inputs[step.input];
    const int k = arguments.input_count++;
    arguments.inputs[k] = input.data;
    arguments.merges[k] = static_cast<std::uint8_t>(step.merges);
    arguments.accumulated |= static_cast<std::uint64_t>(input.accumulated) << k;
    arrays[array_count++] = {input.data, input.accumulated ? shape.partial_bytes : shape.leaf_bytes};
  }
  arguments.is_partial = fold.result == FoldResult::partial;
  for (void* const output : fold.outputs) {
    arguments.outputs[arguments.output_count++] = output;
    arrays[array_count++] = {output, arguments.is_partial ? shape.partial_bytes : shape.result_bytes};
  }
  arguments.ending = {fold.op == ReduceOp::mean, fold.replicas};
  arguments.split = split_of(count, shape.lanes, std::span(arrays).first(array_count));
  return arguments;
}

bool is_in_groups(const Fold& fold) { return groups_of(fold.merges).count != 0; }

bool has_partials(const Fold& fold) {
  return std::any_of(fold.inputs.begin(), fold.inputs.end(), [](const FoldInput& input) { return input.accumulated; });
}

int known_leaves(const Fold& fold) {
  // the results of fold_merges_of_leaves for 2, 3, 4 and 8 leaves
  static constexpr std::uint8_t two[]{0, 1};
  static constexpr std::uint8_t three[]{0, 1, 1};
  static constexpr std::uint8_t four[]{0, 1, 0, 2};
  static constexpr std::uint8_t eight[]{0, 1, 0, 2, 0, 1, 0, 3};
  if (accumulation_dtype(fold.op, fold.dtype) != fold.dtype && has_partials(fold)) return 0;
  for (const std::span<const std::uint8_t> merges : {std::span<const std::uint8_t>(two), {three}, {four}, {eight}}) {
    if (std::equal(merges.begin(), merges.end(), fold.merges.begin(), fold.merges.end())) {
      return static_cast<int>(merges.size());
    }
  }
  return 0;
}

CopyArguments copy_arguments(std::span<const CopyRegion>& regions) {
  CopyArguments arguments;
  std::size_t bytes = 0;
  for (; !regions.empty() && arguments.region_count < CopyArguments::most_regions; regions = regions.subspan(1)) {
    if (regions.front().bytes == 0) continue;
    arguments.regions[arguments.region_count++] = regions.front();
    bytes += regions.front().bytes;
  }
  arguments.chunk_bytes = chunk_bytes_for(bytes);
  const auto chunk_bytes = static_cast<std::size_t>(arguments.chunk_bytes);
  for (int p = 0; p < arguments.region_count; ++p) {
    const std::size_t chunks = (arguments.regions[p].bytes + chunk_bytes - 1) / chunk_bytes;
    arguments.first_chunk[p + 1] = arguments.first_chunk[p] + static_cast<std::uint32_t>(chunks);
  }
  return arguments;
}

FillArguments fill_arguments(void* target, const void* element, std::size_t element_bytes, std::int64_t count) {
  LOCKSTEP_CHECK(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8);
  FillArguments arguments;
  arguments.target = static_cast<unsigned char*>(target);
  arguments.bytes = count * static_cast<std::int64_t>(element_bytes);
  arguments.element_bytes = static_cast<int>(element_bytes);
  std::memcpy(arguments.element.at, element, element_bytes);
  const auto to_alignment = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(target) % word_bytes);
  arguments.head = static_cast<int>(std::min(to_alignment, arguments.bytes));
  arguments.words = (arguments.bytes - arguments.head) / word_bytes;
  unsigned char word[word_bytes];
  for (int b = 0; b < word_bytes; ++b) word[b] = arguments.element.at[(arguments.head + b) % arguments.element_bytes];
  std::memcpy(arguments.word.at, word, sizeof word);
  return arguments;
}

ElementwiseArguments elementwise_arguments(const Elementwise& what, const FoldShape& shape) {
  const auto place = [&](const void* array) {
    return ArrayPlace{array != nullptr ? array : what.target, shape.leaf_bytes};
  };
  const ArrayPlace arrays[]{place(what.target), place(what.left.array), place(what.right.array)};
  return {split_of(what.count, shape.lanes, arrays), what.op, what.target, what.left, what.right};
}

SparseUpdateArguments sparse_update_arguments(const SparseUpdate& update, void* carried, std::size_t first,
                                              const FoldShape& shape) {
  LOCKSTEP_CHECK(update.op != ElementOp::update);
  SparseUpdateArguments arguments;
  arguments.target = update.target;
  arguments.slices = update.slices;
  arguments.carried = carried;
  arguments.width = update.width;
  arguments.divisor = update.divisor;
  arguments.op = update.op;
  const std::span<const RowStep> steps = update.steps.subspan(first);
  const std::size_t count = std::min<std::size_t>(steps.size(), Kernels::most_row_steps);
  for (std::size_t k = 0; k < count; ++k) {
    if (k == 0 || steps[k].row != steps[k - 1].row) {
      arguments.first_step[arguments.row_count] = static_cast<std::uint8_t>(k);
      arguments.rows[arguments.row_count++] = steps[k].row;
    }
    arguments.slice_of[k] = steps[k].slice;
  }
  arguments.first_step[arguments.row_count] = static_cast<std::uint8_t>(count);
  arguments.begins_inside = first > 0 && update.steps[first - 1].row == steps.front().row;
  arguments.ends_inside = count < steps.size() && steps[count].row == steps[count - 1].row;
  if (arguments.begins_inside && arguments.ends_inside && arguments.row_count > 1) {
    // the threads of the first row would read `carried`, and the threads of the last row would write it without
    // synchronization: leave the last row to the next launch
    --arguments.row_count;
    arguments.ends_inside = false;
  }
  LOCKSTEP_CHECK(carried != nullptr || !(arguments.begins_inside || arguments.ends_inside));
  const ArrayPlace arrays[]{
      {update.target, shape.leaf_bytes}, {update.slices, shape.leaf_bytes}, {carried, shape.partial_bytes}};
  arguments.in_packs = first_pack(shape.lanes, arrays) == 0 && update.width % shape.lanes == 0;
  return arguments;
}

}  // namespace lockstep::detail::cuda
