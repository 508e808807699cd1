// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the kernels that fold, executed on the host by simulated GPU threads.

#include "device/cuda/arguments.hpp"
#include "kernels/scalar_reduce.hpp"
#include "schedule/canonical_tree.hpp"
#include "support/canonical_sum.hpp"
#include "support/placed_bytes.hpp"
#include "support/quick.hpp"
#include "support/run_on_host.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace lockstep::detail::cuda {
namespace {

using test::Bytes;

std::vector<Bytes> awkward_leaves(DType dtype, std::int64_t count, int replicas) {
  std::vector<Bytes> leaves;
  for (int r = 0; r < replicas; ++r) {
    leaves.push_back(test::awkward_values(dtype, count, static_cast<std::uint64_t>(r) + 1));
  }
  return leaves;
}

std::vector<FoldInput> inputs_of(const std::vector<Bytes>& leaves) {
  std::vector<FoldInput> inputs;
  for (const Bytes& leaf : leaves) inputs.push_back({leaf.data(), false});
  return inputs;
}

std::size_t result_bytes(ReduceOp op, DType dtype, std::int64_t count) {
  return static_cast<std::size_t>(count) * size_of(result_dtype(op, dtype));
}

std::size_t partial_bytes(ReduceOp op, DType dtype, std::int64_t count) {
  return static_cast<std::size_t>(count) * size_of(accumulation_dtype(op, dtype));
}

/// Enough elements for whole tiles of every kernel for that many inputs, and a remainder.
std::int64_t some_tiles(int replicas) { return replicas <= 2 ? 8192 + 700 : replicas <= 4 ? 4096 + 300 : 2048 + 100; }

TEST(GpuFold, equals_the_oracle_for_every_dtype_op_and_number_of_replicas) {
  std::vector<int> all{33, 64};
  for (int replicas = 1; replicas <= 17; ++replicas) all.push_back(replicas);
  const std::vector<int> numbers = test::some_of(std::move(all));
  for_ops_and_dtypes([&](ReduceOp op, DType dtype) {
    for (const int replicas : numbers) {
      const std::int64_t count = some_tiles(replicas);
      std::vector<Bytes> leaves = awkward_leaves(dtype, count, replicas);
      const Bytes expected = test::canonical_reduce(op, dtype, leaves);
      std::vector<Bytes> results(static_cast<std::size_t>(replicas % 3) + 1, Bytes(expected.size()));
      std::vector<void*> outputs;
      for (Bytes& result : results) outputs.push_back(result.data());
      fold_on_host({.op = op,
                    .dtype = dtype,
                    .inputs = inputs_of(leaves),
                    .merges = fold_merges_of_leaves({0, replicas}),
                    .outputs = outputs,
                    .replicas = replicas},
                   count);
      for (const Bytes& result : results) {
        ASSERT_EQ(result, expected) << to_string(op) << ' ' << to_string(dtype) << ' ' << replicas;
      }
    }
  });
}

TEST(GpuFold, writes_over_its_inputs) {
  for_ops_and_dtypes([](ReduceOp op, DType dtype) {
    if (size_of(result_dtype(op, dtype)) != size_of(dtype)) return;
    for (const int replicas : {1, 2, 3, 4, 5, 8, 11}) {
      const std::int64_t count = some_tiles(replicas);
      std::vector<Bytes> leaves = awkward_leaves(dtype, count, replicas);
      const Bytes expected = test::canonical_reduce(op, dtype, leaves);
      std::vector<void*> outputs;
      for (Bytes& leaf : leaves) outputs.push_back(leaf.data());
      std::reverse(outputs.begin(), outputs.end());
      fold_on_host({.op = op,
                    .dtype = dtype,
                    .inputs = inputs_of(leaves),
                    .merges = fold_merges_of_leaves({0, replicas}),
                    .outputs = outputs,
                    .replicas = replicas},
                   count);
      for (const Bytes& leaf : leaves) ASSERT_EQ(leaf, expected) << to_string(op) << ' ' << to_string(dtype);
    }
  });
}

/// The beginnings of arrays, in elements from an aligned address.
struct Distances {
  std::size_t first_input, other_inputs, output;
};

void expect_same_as_host(ReduceOp op, DType dtype, int replicas, std::int64_t count, const Distances& distances) {
  const std::size_t size = size_of(dtype);
  const std::vector<Bytes> leaves = awkward_leaves(dtype, count, replicas);
  std::vector<test::PlacedBytes> arrays;
  std::vector<FoldInput> inputs;
  for (const Bytes& leaf : leaves) {
    const std::size_t distance = arrays.empty() ? distances.first_input : distances.other_inputs;
    inputs.push_back({arrays.emplace_back(leaf, Device{}, distance * size).data(), false});
  }
  const std::vector<std::uint8_t> merges = fold_merges_of_leaves({0, replicas});
  Bytes expected(result_bytes(op, dtype, count));
  test::PlacedBytes result(Bytes(expected.size()), {}, distances.output * size_of(result_dtype(op, dtype)) % 16);
  void* output = expected.data();
  const Fold fold{.op = op,
                  .dtype = dtype,
                  .inputs = inputs,
                  .merges = merges,
                  .outputs = std::span(&output, 1),
                  .replicas = replicas};
  reduce(fold, count);
  output = result.data();
  fold_on_host(fold, count);
  ASSERT_EQ(result.bytes(), expected) << to_string(op) << ' ' << to_string(dtype) << ", " << replicas << " replicas, "
                                      << count << " elements at " << distances.first_input << ' '
                                      << distances.other_inputs << ' ' << distances.output;
  ASSERT_TRUE(result.room_is_untouched());
}

struct Kind {
  ReduceOp op;
  DType dtype;
};
constexpr Kind kinds_of_every_size[]{{ReduceOp::max, DType::u8},  {ReduceOp::sum, DType::f16},
                                     {ReduceOp::sum, DType::f32}, {ReduceOp::sum, DType::f64},
                                     {ReduceOp::mean, DType::i8}, {ReduceOp::mean, DType::i64}};

TEST(GpuFold, takes_any_number_of_elements) {
  std::vector<std::int64_t> counts{0, 1, 2, 3, 5, 8, 15, 16, 17, 255, 256, 257};
  for (std::int64_t tile = 512; tile <= 8192; tile *= 2)
    counts.insert(counts.end(), {tile - 1, tile, tile + 1, 3 * tile + 7});
  for (const Kind& kind : kinds_of_every_size) {
    for (const std::int64_t count : counts) {
      for (const int replicas : {2, 5}) expect_same_as_host(kind.op, kind.dtype, replicas, count, {0, 0, 0});
    }
  }
}

TEST(GpuFold, takes_arrays_at_any_elements) {
  for (const Kind& kind : kinds_of_every_size) {
    const std::size_t line = line_bytes / size_of(kind.dtype);
    std::vector<std::size_t> distances{line / 2, line - 1};
    for (std::size_t distance = 0; distance * size_of(kind.dtype) < 16; ++distance) distances.push_back(distance);
    for (const std::size_t distance : distances) {
      for (const int replicas : {2, 3}) {
        const std::int64_t count = some_tiles(replicas) + 3;
        expect_same_as_host(kind.op, kind.dtype, replicas, count, {distance, distance, distance});
        expect_same_as_host(kind.op, kind.dtype, replicas, count, {distance, 0, distance});
        expect_same_as_host(kind.op, kind.dtype, replicas, count, {0, 0, distance});
        expect_same_as_host(kind.op, kind.dtype, replicas, 5, {distance, distance, distance});
      }
    }
  }
}

TEST(GpuSplit, begins_packs_with_cache_lines_if_all_arrays_can_begin_there) {
  alignas(line_bytes) static std::byte memory[2 * line_bytes];
  const auto f32 = [](std::size_t element) { return ArrayPlace{memory + element * 4, 4}; };
  const auto expect_split = [](const Split& split, bool is_aligned, std::int64_t head) {
    EXPECT_EQ(split.is_aligned, is_aligned);
    EXPECT_EQ(split.head, head);
  };
  expect_split(split_of(1000, 4, std::vector{f32(0), f32(32)}), true, 0);
  expect_split(split_of(1000, 4, std::vector{f32(1), f32(33)}), true, 31);
  expect_split(split_of(1000, 4, std::vector{f32(4), f32(4)}), true, 28);
  expect_split(split_of(20, 4, std::vector{f32(4), f32(4)}), true, 0);     // there is no line after the first one
  expect_split(split_of(1000, 4, std::vector{f32(1), f32(5)}), true, 3);   // words, but not lines
  expect_split(split_of(1000, 4, std::vector{f32(0), f32(1)}), false, 0);  // nothing
  expect_split(split_of(2, 4, std::vector{f32(1), f32(1)}), false, 0);
  // 16-bit leaves and their f32 sums: the same elements begin lines of both
  expect_split(split_of(1000, 8, std::vector{ArrayPlace{memory + 2, 2}, ArrayPlace{memory + 4, 4}}), true, 63);
}

/// Folds the data that ranks with these replicas send: single leaves, and partial results of several.
TEST(GpuFold, gives_the_same_through_partial_results) {
  constexpr int replicas = 23;
  constexpr int firsts[]{0, 5, 8, 16, 17, replicas};
  constexpr std::int64_t count = 2500;
  for_ops_and_dtypes([&](ReduceOp op, DType dtype) {
    const std::vector<Bytes> leaves = awkward_leaves(dtype, count, replicas);
    const std::vector<FoldInput> all = inputs_of(leaves);
    std::vector<Block> blocks;
    for (std::size_t rank = 0; rank + 1 < std::size(firsts); ++rank) {
      for (const Block& block : aligned_blocks(firsts[rank], firsts[rank + 1], replicas)) blocks.push_back(block);
    }
    std::vector<Bytes> partials(blocks.size(), Bytes(partial_bytes(op, dtype, count)));
    std::vector<FoldInput> inputs;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto first = static_cast<std::size_t>(blocks[b].first);
      const auto size = static_cast<std::size_t>(blocks[b].last - blocks[b].first);
      inputs.push_back(size == 1 ? all[first] : FoldInput{partials[b].data(), true});
      void* output = partials[b].data();
      const std::vector<std::uint8_t> merges = fold_merges_of_leaves(blocks[b]);
      const Fold fold{.op = op,
                      .dtype = dtype,
                      .inputs = std::span(all).subspan(first, size),
                      .merges = merges,
                      .outputs = std::span(&output, 1),
                      .result = FoldResult::partial};
      fold_on_host(fold, count);
      Bytes expected(partials[b].size());
      output = expected.data();
      reduce(fold, count);
      ASSERT_TRUE(same_partials(partials[b], expected, accumulation_dtype(op, dtype)))
          << to_string(op) << ' ' << to_string(dtype);
    }
    Bytes result(result_bytes(op, dtype, count));
    fold_on_host({.op = op,
                  .dtype = dtype,
                  .inputs = inputs,
                  .merges = fold_merges(blocks, {0, replicas}),
                  .outputs = std::vector<void*>{result.data()},
                  .replicas = replicas},
                 count);
    ASSERT_EQ(result, test::canonical_reduce(op, dtype, leaves)) << to_string(op) << ' ' << to_string(dtype);
  });
}

/// Cuts blocks of a tree in two until there are `number` of them.
std::vector<Block> cut_at_random(Block root, std::size_t number, bool only_last, std::mt19937& random) {
  std::vector<Block> blocks{root};
  while (blocks.size() < number) {
    const std::size_t b = only_last ? blocks.size() - 1 : random() % blocks.size();
    const Block block = blocks[b];
    const int size = block.last - block.first;
    if (size == 1) continue;
    blocks[b] = {block.first + size / 2, block.last};
    blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(b), {block.first, block.first + size / 2});
  }
  return blocks;
}

void expect_folded(const std::vector<Block>& blocks, Block root, ReduceOp op, DType dtype) {
  constexpr std::int64_t count = 2100;
  const std::vector<Bytes> partials =
      awkward_leaves(accumulation_dtype(op, dtype), count, static_cast<int>(blocks.size()));
  std::vector<FoldInput> inputs;
  for (const Bytes& partial : partials) inputs.push_back({partial.data(), true});
  const std::vector<std::uint8_t> merges = fold_merges(blocks, root);
  Bytes expected(result_bytes(op, dtype, count));
  Bytes result(expected.size());
  void* output = expected.data();
  const Fold fold{.op = op,
                  .dtype = dtype,
                  .inputs = inputs,
                  .merges = merges,
                  .outputs = std::span(&output, 1),
                  .replicas = root.last};
  reduce(fold, count);
  output = result.data();
  fold_on_host(fold, count);
  ASSERT_EQ(result, expected) << to_string(op) << ' ' << to_string(dtype) << ", " << blocks.size() << " inputs, depth "
                              << stack_depth(merges);
}

TEST(GpuFold, takes_trees_whose_inputs_are_deeper_in_order_than_its_stack) {
  std::mt19937 random(1);
  constexpr Block root{0, 1 << 20};
  for (const Kind& kind :
       {Kind{ReduceOp::sum, DType::f32}, {ReduceOp::mean, DType::bf16}, {ReduceOp::min, DType::f64}}) {
    for (std::size_t number = 2; number <= 21; ++number) {
      const std::vector<Block> blocks = cut_at_random(root, number, true, random);
      ASSERT_EQ(stack_depth(fold_merges(blocks, root)), static_cast<int>(number));
      expect_folded(blocks, root, kind.op, kind.dtype);
    }
    for (int round = 0; round < (test::is_quick() ? 6 : 30); ++round) {
      expect_folded(cut_at_random(root, 2 + random() % 63, false, random), root, kind.op, kind.dtype);
      expect_folded(cut_at_random(root, 64, false, random), root, kind.op, kind.dtype);
    }
  }
}

TEST(GpuFold, finishes_one_partial_into_as_many_outputs_as_there_can_be) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    constexpr std::int64_t count = 5000;
    const Bytes partial = test::awkward_values(DType::f32, count, 3);
    std::vector<Bytes> results(Kernels::most_outputs, Bytes(count * 2));
    std::vector<void*> outputs;
    for (Bytes& result : results) outputs.push_back(result.data());
    const FoldInput input{partial.data(), true};
    constexpr std::uint8_t merges[]{0};
    const Fold fold{.dtype = dtype, .inputs = std::span(&input, 1), .merges = merges, .outputs = outputs};
    fold_on_host(fold, count);
    Bytes expected(count * 2);
    void* const output = expected.data();
    reduce({.dtype = dtype, .inputs = fold.inputs, .merges = merges, .outputs = std::span(&output, 1)}, count);
    for (const Bytes& result : results) ASSERT_EQ(result, expected);
  }
}

}  // namespace
}  // namespace lockstep::detail::cuda
