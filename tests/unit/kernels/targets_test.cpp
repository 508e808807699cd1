// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of every target that runs on this processor, against the scalar definition.

#include "kernels/guarded_memory.hpp"
#include "kernels/scalar_reduce.hpp"

#include "schedule/canonical_tree.hpp"
#include "support/canonical_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

namespace lockstep::detail {
namespace {

using test::Bytes;
using test::GuardedMemory;

constexpr std::int64_t most = 300;  // elements: several vectors of every width and a remainder
constexpr int most_replicas = 17;
constexpr int most_outputs = 3;

/// Leaves of one op and dtype, the results for all counts (a shorter fold's results are a prefix), and memory to fold
/// in.
class Case {
 public:
  Case(ReduceOp op, DType dtype, int replicas)
      : op_(op), dtype_(dtype), replicas_(replicas), merges_(fold_merges_of_leaves({0, replicas})) {
    for (int r = 0; r < replicas; ++r) {
      leaves_.push_back(test::awkward_values(dtype, most, static_cast<std::uint64_t>(r) + 1));
    }
    finished_ = expected(FoldResult::finished);
    partial_ = expected(FoldResult::partial);
  }

  [[nodiscard]] DType output_dtype(FoldResult result) const {
    return result == FoldResult::partial ? accumulation_dtype(op_, dtype_) : result_dtype(op_, dtype_);
  }
  [[nodiscard]] bool is_right(FoldResult result, const std::byte* data, std::int64_t count) const {
    const Bytes& all = result == FoldResult::partial ? partial_ : finished_;
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(output_dtype(result));
    if (std::memcmp(data, all.data(), bytes) == 0) return true;
    return result == FoldResult::partial &&
           same_partials(Bytes(data, data + bytes), Bytes(all.data(), all.data() + bytes), output_dtype(result));
  }
  [[nodiscard]] Fold fold(std::span<const FoldInput> inputs, std::span<void* const> outputs, FoldResult result,
                          bool stream) const {
    return {.op = op_,
            .dtype = dtype_,
            .inputs = inputs,
            .merges = merges_,
            .outputs = outputs,
            .result = result,
            .replicas = replicas_,
            .stream = stream};
  }
  [[nodiscard]] const std::vector<Bytes>& leaves() const { return leaves_; }

 private:
  [[nodiscard]] Bytes expected(FoldResult result) const {
    Bytes bytes(static_cast<std::size_t>(most) * size_of(output_dtype(result)));
    std::vector<FoldInput> inputs;
    for (const Bytes& leaf : leaves_) inputs.push_back({leaf.data(), false});
    void* const output = bytes.data();
    scalar_reduce(fold(inputs, std::span(&output, 1), result, false), most);
    return bytes;
  }

  ReduceOp op_;
  DType dtype_;
  int replicas_;
  std::vector<std::uint8_t> merges_;
  std::vector<Bytes> leaves_;
  Bytes finished_;
  Bytes partial_;
};

std::vector<std::unique_ptr<GuardedMemory>> memories(int number) {
  std::vector<std::unique_ptr<GuardedMemory>> list;
  for (int i = 0; i < number; ++i) list.push_back(std::make_unique<GuardedMemory>(static_cast<std::size_t>(most) * 8));
  return list;
}

std::string describe(const TargetFunction& target, ReduceOp op, DType dtype, int replicas, std::int64_t count) {
  return std::string(target.target) + ' ' + std::string(to_string(op)) + ' ' + std::string(to_string(dtype)) + ", " +
         std::to_string(replicas) + " replicas, " + std::to_string(count) + " elements";
}

std::vector<std::int64_t> counts() {
  std::vector<std::int64_t> list;
  for (std::int64_t count = 0; count <= 70; ++count) list.push_back(count);
  for (const std::int64_t count : {127, 128, 129, 191, 255, 256, 257, 300}) list.push_back(count);
  return list;
}

TEST(Targets, are_named_and_the_best_is_chosen) {
  const auto targets = kernel_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(kernel_target(), targets.front());
  {
    const ForcedKernelTarget forced(targets.back());
    EXPECT_EQ(kernel_target(), targets.back());
  }
  EXPECT_EQ(kernel_target(), targets.front());
}

TEST(Targets, fold_leaves_like_the_scalar_definition_at_every_count_and_touch_nothing_else) {
  const auto inputs = memories(most_replicas);
  const auto outputs = memories(most_outputs);
  for_ops_and_dtypes([&](ReduceOp op, DType dtype) {
    const auto functions = functions_of_all_targets(op, dtype);
    for (int replicas = 1; replicas <= most_replicas; ++replicas) {
      const Case tested(op, dtype, replicas);
      for (const std::int64_t count : counts()) {
        const auto result = count % 3 == 1 ? FoldResult::partial : FoldResult::finished;
        const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
        const std::size_t output_bytes = static_cast<std::size_t>(count) * size_of(tested.output_dtype(result));
        // at one end of the memory or the other, so addresses are misaligned too
        const bool at_end = (count + replicas) % 4 != 0;
        std::vector<FoldInput> sources;
        for (std::size_t r = 0; r < tested.leaves().size(); ++r) {
          std::byte* const data = at_end ? inputs[r]->last(bytes) : inputs[r]->first(bytes);
          std::memcpy(data, tested.leaves()[r].data(), bytes);
          sources.push_back({data, false});
        }
        std::vector<void*> results;
        for (std::int64_t k = 0; k <= count % most_outputs; ++k) {
          const auto& memory = *outputs[static_cast<std::size_t>(k)];
          results.push_back(at_end ? memory.last(output_bytes) : memory.first(output_bytes));
        }
        for (const TargetFunction& target : functions) {
          for (const bool stream : {false, true}) {
            for (void* const output : results) std::memset(output, 0x5a, output_bytes);
            target.function(tested.fold(sources, results, result, stream), count);
            for (void* const output : results) {
              ASSERT_TRUE(tested.is_right(result, static_cast<std::byte*>(output), count))
                  << describe(target, op, dtype, replicas, count) << (stream ? ", streamed" : "");
            }
          }
        }
      }
    }
  });
}

TEST(Targets, store_nothing_outside_outputs_at_odd_offsets) {
  const Bytes untouched(64, std::byte{0xa5});
  for_ops_and_dtypes([&](ReduceOp op, DType dtype) {
    const Case tested(op, dtype, 3);
    std::vector<FoldInput> sources;
    for (const Bytes& leaf : tested.leaves()) sources.push_back({leaf.data(), false});
    const std::size_t size = size_of(result_dtype(op, dtype));
    for (const TargetFunction& target : functions_of_all_targets(op, dtype)) {
      for (const std::int64_t count : {1, 3, 7, 31, 65, 130, 300}) {
        for (std::size_t offset = 0; offset < 9; ++offset) {
          const std::size_t begin = 64 + offset * size;
          const std::size_t end = begin + static_cast<std::size_t>(count) * size;
          Bytes memory(end + 64, std::byte{0xa5});
          void* const output = memory.data() + begin;
          target.function(tested.fold(sources, std::span(&output, 1), FoldResult::finished, offset % 2 != 0), count);
          ASSERT_TRUE(tested.is_right(FoldResult::finished, memory.data() + begin, count));
          ASSERT_TRUE(std::equal(untouched.begin(), untouched.end(),
                                 memory.begin() + static_cast<std::ptrdiff_t>(begin) - 64) &&
                      std::equal(untouched.begin(), untouched.end(), memory.begin() + static_cast<std::ptrdiff_t>(end)))
              << describe(target, op, dtype, 3, count) << ", offset " << offset;
        }
      }
    }
  });
}

TEST(Targets, fold_in_place) {
  for_ops_and_dtypes([&](ReduceOp op, DType dtype) {
    if (size_of(result_dtype(op, dtype)) != size_of(dtype)) return;
    const auto functions = functions_of_all_targets(op, dtype);
    for (const int replicas : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17}) {
      const Case tested(op, dtype, replicas);
      for (const TargetFunction& target : functions) {
        for (const std::int64_t count : {1, 2, 5, 16, 17, 33, 63, 64, 65, 66, 127, 129, 191, 300}) {
          for (const bool stream : {false, true}) {
            std::vector<Bytes> memory = tested.leaves();
            std::vector<FoldInput> sources;
            std::vector<void*> results;
            for (Bytes& bytes : memory) {
              sources.push_back({bytes.data(), false});
              results.push_back(bytes.data());
            }
            target.function(tested.fold(sources, results, FoldResult::finished, stream), count);
            for (std::size_t r = 0; r < memory.size(); ++r) {
              ASSERT_TRUE(tested.is_right(FoldResult::finished, memory[r].data(), count))
                  << describe(target, op, dtype, replicas, count);
              const auto rest = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(count) * size_of(dtype));
              ASSERT_TRUE(std::equal(memory[r].begin() + rest, memory[r].end(), tested.leaves()[r].begin() + rest));
            }
          }
        }
      }
    }
  });
}

/// Evaluates the tree in two rounds: [0, R) is cut into up to three ranges, as ranks cut it, and the blocks of each
/// range are folded to partial results first.
TEST(Targets, fold_partial_results_and_leaves_together_to_the_same_bits) {
  for_ops_and_dtypes([&](ReduceOp op, DType dtype) {
    const DType accumulator = accumulation_dtype(op, dtype);
    const auto functions = functions_of_all_targets(op, dtype);
    for (int replicas = 2; replicas <= most_replicas; ++replicas) {
      const Case tested(op, dtype, replicas);
      const int cuts[]{0, replicas / 3, replicas - replicas / 2, replicas};
      for (const TargetFunction& target : functions) {
        for (const std::int64_t count : {1, 6, 35, 300}) {
          std::vector<Block> blocks;
          for (int c = 0; c < 3; ++c) {
            for (const Block& block : aligned_blocks(cuts[c], cuts[c + 1], replicas)) blocks.push_back(block);
          }
          std::vector<Bytes> partials(blocks.size());
          std::vector<FoldInput> inputs;
          for (std::size_t b = 0; b < blocks.size(); ++b) {
            const auto first = static_cast<std::size_t>(blocks[b].first);
            if (blocks[b].last - blocks[b].first == 1) {
              inputs.push_back({tested.leaves()[first].data(), false});
              continue;
            }
            std::vector<FoldInput> leaves;
            for (int r = blocks[b].first; r < blocks[b].last; ++r) {
              leaves.push_back({tested.leaves()[static_cast<std::size_t>(r)].data(), false});
            }
            partials[b].resize(static_cast<std::size_t>(count) * size_of(accumulator));
            void* const output = partials[b].data();
            target.function({.op = op,
                             .dtype = dtype,
                             .inputs = leaves,
                             .merges = fold_merges_of_leaves(blocks[b]),
                             .outputs = std::span(&output, 1),
                             .result = FoldResult::partial,
                             .replicas = replicas},
                            count);
            inputs.push_back({partials[b].data(), true});
          }
          Bytes memory(static_cast<std::size_t>(count) * size_of(result_dtype(op, dtype)));
          void* const output = memory.data();
          target.function({.op = op,
                           .dtype = dtype,
                           .inputs = inputs,
                           .merges = fold_merges(blocks, {0, replicas}),
                           .outputs = std::span(&output, 1),
                           .replicas = replicas},
                          count);
          ASSERT_TRUE(tested.is_right(FoldResult::finished, memory.data(), count))
              << describe(target, op, dtype, replicas, count);
        }
      }
    }
  });
}

/// Pairs of special values, in both orders, at every position of a vector.
template <class T>
void check_special_pairs(const std::vector<T>& special) {
  std::vector<T> left;
  std::vector<T> right;
  for (const T a : special) {
    for (const T b : special) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const auto count = static_cast<std::int64_t>(left.size());
  const FoldInput inputs[]{{left.data(), false}, {right.data(), false}};
  const auto merges = fold_merges_of_leaves({0, 2});
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
    Bytes expected(left.size() * sizeof(T));
    Bytes got(left.size() * sizeof(T));
    void* output = expected.data();
    Fold fold{.op = op,
              .dtype = dtype_of<T>,
              .inputs = inputs,
              .merges = merges,
              .outputs = std::span(&output, 1),
              .replicas = 2};
    scalar_reduce(fold, count);
    for (const TargetFunction& target : functions_of_all_targets(op, dtype_of<T>)) {
      output = got.data();
      target.function(fold, count);
      EXPECT_EQ(got, expected) << target.target << ' ' << to_string(op) << ' ' << to_string(dtype_of<T>);
      for (std::int64_t i = 0; i < count; ++i) {  // including the narrowest vectors
        const FoldInput one[]{{left.data() + i, false}, {right.data() + i, false}};
        output = got.data() + static_cast<std::size_t>(i) * sizeof(T);
        Fold single = fold;
        single.inputs = one;
        target.function(single, 1);
      }
      EXPECT_EQ(got, expected) << target.target << ' ' << to_string(op) << ' ' << to_string(dtype_of<T>);
    }
  }
}

TEST(Targets, handle_nan_infinity_zero_and_subnormals_in_every_order) {
  check_special_pairs<float>({std::bit_cast<float>(0x7fc00000u), std::bit_cast<float>(0xffc12345u),
                              std::bit_cast<float>(0x7f800001u), INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.0f, 1e-45f,
                              -1e-45f, 1e-38f, 3.4028235e38f, -3.4028235e38f});
  check_special_pairs<double>({std::bit_cast<double>(0x7ff8000000000000ull),
                               std::bit_cast<double>(0xfff8000000012345ull),
                               std::bit_cast<double>(0x7ff0000000000001ull), INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0,
                               5e-324, -5e-324, 1e-308, 1.7976931348623157e308, -1.7976931348623157e308});
  std::vector<Float16> halves;
  for (const int bits : {0x7e00, 0xfe01, 0x7c01, 0x7c00, 0xfc00, 0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff,
                         0x0400, 0x7bff, 0xfbff}) {
    halves.push_back(Float16::from_bits(static_cast<std::uint16_t>(bits)));
  }
  check_special_pairs(halves);
  std::vector<BFloat16> brains;
  for (const int bits : {0x7fc0, 0xffc1, 0x7f81, 0x7f80, 0xff80, 0x0000, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f,
                         0x0080, 0x7f7f, 0xff7f}) {
    brains.push_back(BFloat16::from_bits(static_cast<std::uint16_t>(bits)));
  }
  check_special_pairs(brains);
}

TEST(Targets, compute_means_of_the_largest_integers) {
  const std::vector<std::int64_t> values{std::numeric_limits<std::int64_t>::min(),
                                         std::numeric_limits<std::int64_t>::max(),
                                         -1,
                                         0,
                                         1,
                                         (1ll << 53) + 1,
                                         -(1ll << 53) - 1,
                                         (1ll << 62) + 3,
                                         0xffffffffll,
                                         -0x100000000ll};
  const FoldInput inputs[]{{values.data(), false}};
  const std::uint8_t merges[]{0};
  for (const DType dtype : {DType::i64, DType::u64, DType::u32, DType::i32}) {
    const auto count = static_cast<std::int64_t>(values.size() * 8 / size_of(dtype));
    std::vector<double> expected(static_cast<std::size_t>(count));
    std::vector<double> got(static_cast<std::size_t>(count));
    void* output = expected.data();
    const Fold fold{.op = ReduceOp::mean,
                    .dtype = dtype,
                    .inputs = inputs,
                    .merges = merges,
                    .outputs = std::span(&output, 1),
                    .replicas = 1};
    scalar_reduce(fold, count);
    output = got.data();
    for (const TargetFunction& target : functions_of_all_targets(ReduceOp::mean, dtype)) {
      target.function(fold, count);
      EXPECT_EQ(got, expected) << target.target << ' ' << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace lockstep::detail
