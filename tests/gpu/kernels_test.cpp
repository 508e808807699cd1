// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels on a GPU give the same bits as those of the host.

#include "device/cuda/kernels.hpp"

#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "gpu/on_gpu.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/optimizer_step.hpp"
#include "kernels/reduce.hpp"
#include "kernels/sparse_update.hpp"
#include "schedule/canonical_tree.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

using test::Bytes;
using test::logical_gpu;
using test::PlacedBytes;

class GpuKernels : public test::GpuTest {
 protected:
  /// Runs `launch` on the first device's stream, and waits.
  static void run(const std::function<Status(Kernels&, Stream)>& launch) {
    Backend& backend = Backend::of_this_process();
    const CurrentDevice current(0);
    check(backend.api(), launch(backend.kernels(), stream_of(logical_gpu(0))), "launch");
    synchronize(logical_gpu(0));
  }
};

struct FoldCase {
  ReduceOp op;
  DType dtype;
  int replicas;
  std::int64_t count;
  std::size_t distance_elements;  ///< distance of all arrays from an aligned address
  bool in_place;                  ///< in place, else to two outputs
};

std::string text_of(const FoldCase& what) {
  return fmt::format("{} {} of {} replicas, {} elements at {}{}", to_string(what.op), to_string(what.dtype),
                     what.replicas, what.count, what.distance_elements, what.in_place ? ", in place" : "");
}

/// A fold of the leaves 0, 1, 2, ...
class Leaves {
 public:
  explicit Leaves(const FoldCase& what) : what_(what), merges_(fold_merges_of_leaves({0, what.replicas})) {
    for (int r = 0; r < what.replicas; ++r) {
      host_.push_back(test::awkward_values(what.dtype, what.count, static_cast<std::uint64_t>(r) + 1));
    }
  }

  [[nodiscard]] Bytes reduced_by_the_host() const {
    Bytes result(result_bytes());
    void* output = result.data();
    std::vector<FoldInput> inputs;
    for (const Bytes& leaf : host_) inputs.push_back({leaf.data(), false});
    reduce(fold(inputs, std::span(&output, 1)), what_.count);
    return result;
  }

  void expect_on_gpu(const Bytes& expected, const std::function<void(const Fold&)>& run) const {
    std::vector<PlacedBytes> arrays;
    for (const Bytes& leaf : host_) arrays.emplace_back(leaf, logical_gpu(0), distance_bytes(what_.dtype));
    for (int i = 0; !what_.in_place && i < 2; ++i) {
      arrays.emplace_back(Bytes(result_bytes()), logical_gpu(0), distance_bytes(result_dtype(what_.op, what_.dtype)));
    }
    const std::size_t first_output = what_.in_place ? 0 : host_.size();
    std::vector<FoldInput> inputs;
    std::vector<void*> outputs;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (i < host_.size()) inputs.push_back({arrays[i].data(), false});
      if (i >= first_output) outputs.push_back(arrays[i].data());
    }
    run(fold(inputs, outputs));
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ(arrays[i].bytes(), i < first_output ? host_[i] : expected) << text_of(what_) << ", array " << i;
      EXPECT_TRUE(arrays[i].room_is_untouched()) << text_of(what_) << ", array " << i;
    }
  }

 private:
  [[nodiscard]] std::size_t result_bytes() const {
    return static_cast<std::size_t>(what_.count) * size_of(result_dtype(what_.op, what_.dtype));
  }
  [[nodiscard]] std::size_t distance_bytes(DType dtype) const { return what_.distance_elements * size_of(dtype); }
  [[nodiscard]] Fold fold(std::span<const FoldInput> inputs, std::span<void* const> outputs) const {
    return {.op = what_.op,
            .dtype = what_.dtype,
            .inputs = inputs,
            .merges = merges_,
            .outputs = outputs,
            .replicas = what_.replicas};
  }

  FoldCase what_;
  std::vector<std::uint8_t> merges_;
  std::vector<Bytes> host_;
};

TEST_F(GpuKernels, reduce_every_op_and_dtype_as_the_host_does) {
  for (int o = 0; o < reduce_op_count; ++o) {
    for (int d = 0; d < dtype_count; ++d) {
      const auto op = static_cast<ReduceOp>(o);
      const auto dtype = static_cast<DType>(d);
      if (!supports(op, dtype)) continue;
      const bool has_in_place = size_of(result_dtype(op, dtype)) == size_of(dtype);
      for (const int replicas : {1, 2, 3, 4, 5, 8, 13}) {
        for (const std::size_t distance : {std::size_t{0}, std::size_t{1}}) {
          const FoldCase what{op, dtype, replicas, 5003, distance, has_in_place && replicas % 2 == 0};
          const Leaves leaves(what);
          leaves.expect_on_gpu(leaves.reduced_by_the_host(), [](const Fold& fold) {
            run([&](Kernels& kernels, Stream stream) { return kernels.reduce(fold, 5003, stream); });
          });
        }
      }
    }
  }
}

TEST_F(GpuKernels, reduce_any_number_of_elements) {
  for (const std::int64_t count : {0, 1, 2, 255, 256, 257, 8191, 1'000'003}) {
    for (const int replicas : {2, 4, 8, 33, 64}) {
      if (count > 10'000 && replicas > 8) continue;
      const Leaves leaves({ReduceOp::sum, DType::f32, replicas, count, 0, false});
      leaves.expect_on_gpu(leaves.reduced_by_the_host(), [&](const Fold& fold) {
        run([&](Kernels& kernels, Stream stream) { return kernels.reduce(fold, count, stream); });
      });
    }
  }
}

/// The partial result of a device with replicas 0 to 3, folded with replica 4.
TEST_F(GpuKernels, reduce_through_partial_results) {
  constexpr std::int64_t count = 3001;
  for (const DType dtype : {DType::bf16, DType::f32, DType::i64}) {
    std::vector<PlacedBytes> leaves;
    std::vector<Bytes> host;
    std::vector<FoldInput> inputs;
    for (std::uint64_t r = 0; r < 5; ++r) {
      host.push_back(test::awkward_values(dtype, count, r + 1));
      leaves.emplace_back(host.back(), logical_gpu(0));
    }
    for (PlacedBytes& leaf : leaves) inputs.push_back({leaf.data(), false});
    const std::size_t partial_bytes = count * size_of(accumulation_dtype(ReduceOp::mean, dtype));
    PlacedBytes partial(Bytes(partial_bytes), logical_gpu(0));
    const Bytes expected = test::canonical_reduce(ReduceOp::mean, dtype, host);
    PlacedBytes result(Bytes(expected.size()), logical_gpu(0));
    void* output = partial.data();
    run([&](Kernels& kernels, Stream stream) {
      return kernels.reduce({.op = ReduceOp::mean,
                             .dtype = dtype,
                             .inputs = std::span(inputs).first(4),
                             .merges = fold_merges_of_leaves({0, 4}),
                             .outputs = std::span(&output, 1),
                             .result = FoldResult::partial},
                            count, stream);
    });
    const FoldInput both[]{{partial.data(), true}, inputs[4]};
    const Block blocks[]{{0, 4}, {4, 5}};
    output = result.data();
    run([&](Kernels& kernels, Stream stream) {
      return kernels.reduce({.op = ReduceOp::mean,
                             .dtype = dtype,
                             .inputs = both,
                             .merges = fold_merges(blocks, {0, 5}),
                             .outputs = std::span(&output, 1),
                             .replicas = 5},
                            count, stream);
    });
    EXPECT_EQ(result.bytes(), expected) << to_string(dtype);
  }
}

TEST_F(GpuKernels, copy_pieces_of_any_length_to_any_address) {
  std::vector<Bytes> sources;
  std::vector<PlacedBytes> there;
  std::vector<PlacedBytes> targets;
  for (std::size_t i = 0; i < 500; ++i) {
    const std::size_t bytes = i % 97 == 0 ? 300'007 : i * 7 % 1000;
    sources.push_back(test::awkward_values(DType::u8, static_cast<std::int64_t>(bytes), i));
    there.emplace_back(sources.back(), logical_gpu(0), i % 17);
    targets.emplace_back(Bytes(bytes), logical_gpu(0), i % 13);
  }
  std::vector<CopyRegion> pieces;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    pieces.push_back({there[i].data(), targets[i].data(), sources[i].size()});
  }
  run([&](Kernels& kernels, Stream stream) { return kernels.copy(pieces, stream); });
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ASSERT_EQ(targets[i].bytes(), sources[i]) << "piece " << i;
    ASSERT_TRUE(targets[i].room_is_untouched()) << "piece " << i;
  }
}

TEST_F(GpuKernels, fill_elements_of_every_size) {
  for (const std::size_t size : {1U, 2U, 4U, 8U}) {
    const Bytes element = test::awkward_values(DType::u8, static_cast<std::int64_t>(size), size);
    Bytes expected;
    for (int i = 0; i < 4099; ++i) expected.insert(expected.end(), element.begin(), element.end());
    PlacedBytes there(Bytes(expected.size()), logical_gpu(0), size);
    run([&](Kernels& kernels, Stream stream) {
      return kernels.fill(there.data(), element.data(), size, 4099, stream);
    });
    EXPECT_EQ(there.bytes(), expected) << size;
    EXPECT_TRUE(there.room_is_untouched()) << size;
  }
}

TEST_F(GpuKernels, combine_elements_as_the_host_does) {
  constexpr ElementOp ops[]{ElementOp::add, ElementOp::sub, ElementOp::mul, ElementOp::div};
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (dtype == DType::boolean) continue;
    for (const std::int64_t count : {1, 5003, 300'001}) {
      for (const std::size_t distance : {std::size_t{0}, size_of(dtype)}) {
        Bytes left = test::awkward_values(dtype, count, 1);
        Bytes right = test::awkward_values(dtype, count, 2);
        if (is_integer(dtype)) {
          for (std::byte& byte : right) byte |= std::byte{1};  // no divisor is 0
        }
        PlacedBytes left_there(left, logical_gpu(0));
        PlacedBytes right_there(right, logical_gpu(0), distance);
        for (const ElementOp op : ops) {
          for (const bool by_number : {false, true}) {
            Bytes target(left.size());
            PlacedBytes there(target, logical_gpu(0), distance);
            Elementwise what{.op = op,
                             .dtype = dtype,
                             .target = target.data(),
                             .left = {left.data()},
                             .right = {right.data()},
                             .count = count};
            if (by_number) {
              what.right = {};
              std::memcpy(what.right.number.data(), right.data(), size_of(dtype));
            }
            compute_elementwise(what);
            what.target = there.data();
            what.left.array = left_there.data();
            if (!by_number) what.right.array = right_there.data();
            run([&](Kernels& kernels, Stream stream) { return kernels.compute_elementwise(what, stream); });
            EXPECT_EQ(there.bytes(), target)
                << to_string(dtype) << ", " << count << " elements, op " << static_cast<int>(op);
            EXPECT_TRUE(there.room_is_untouched()) << to_string(dtype) << ", " << count << " elements";
          }
        }
      }
    }
  }
}

TEST_F(GpuKernels, write_rows_as_the_host_does) {
  constexpr ElementOp ops[]{ElementOp::add, ElementOp::sub, ElementOp::mul,
                            ElementOp::div, ElementOp::min, ElementOp::max};
  constexpr std::int64_t rows = 50;
  std::vector<std::int64_t> indices;
  for (std::int64_t k = 0; k < 1000; ++k)
    indices.push_back(k % 3 == 0 ? 7 : k * k % rows);  // one index in two launches
  const std::vector<RowStep> steps = steps_by_row(indices);
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (dtype == DType::boolean) continue;
    for (const std::int64_t width : {1, 24, 77}) {
      Bytes slices = test::awkward_values(dtype, 1000 * width, 2);
      if (is_integer(dtype)) {
        for (std::byte& byte : slices) byte |= std::byte{1};  // no divisor is 0
      }
      PlacedBytes slices_there(slices, logical_gpu(0));
      for (const ElementOp op : ops) {
        Bytes target = test::awkward_values(dtype, rows * width, 1);
        PlacedBytes there(target, logical_gpu(0), width == 24 ? size_of(dtype) : 0);
        PlacedBytes carried(Bytes(static_cast<std::size_t>(width) * 8), logical_gpu(0));
        SparseUpdate update{.op = op,
                            .dtype = dtype,
                            .target = target.data(),
                            .slices = slices.data(),
                            .width = width,
                            .steps = steps,
                            .divisor = is_floating_point(dtype) ? 3 : 1};
        apply_sparse_update(update);
        update.target = there.data();
        update.slices = slices_there.data();
        run([&](Kernels& kernels, Stream stream) {
          return kernels.apply_sparse_update(update, carried.data(), stream);
        });
        EXPECT_EQ(there.bytes(), target) << to_string(dtype) << ", width " << width << ", op " << static_cast<int>(op);
        EXPECT_TRUE(there.room_is_untouched()) << to_string(dtype) << ", width " << width;
      }
    }
  }
}

/// Four arrays of one length, on the host and on the GPU.
class Arrays {
 public:
  static constexpr std::int64_t count = 20'003;

  explicit Arrays(std::size_t distance_bytes) {
    for (std::size_t a = 0; a < host_.size(); ++a) {
      for (std::int64_t i = 0; i < count; ++i) {
        host_[a].push_back(std::ldexp(static_cast<float>((i * 7919 + 31) % 4093 + 1), static_cast<int>(i % 24) - 20));
      }
      there_.emplace_back(bytes_of(host_[a]), logical_gpu(0), distance_bytes * (a + 1));
    }
  }

  [[nodiscard]] std::span<float> host(std::size_t array) { return host_[array]; }
  [[nodiscard]] std::span<float> there(std::size_t array) {
    return {reinterpret_cast<float*>(there_[array].data()), static_cast<std::size_t>(count)};
  }
  void expect_same(std::string_view step) const {
    for (std::size_t a = 0; a < host_.size(); ++a) {
      EXPECT_EQ(there_[a].bytes(), bytes_of(host_[a])) << step << ", array " << a;
    }
  }

 private:
  static Bytes bytes_of(const std::vector<float>& values) {
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  std::array<std::vector<float>, 4> host_;
  std::vector<PlacedBytes> there_;
};

TEST_F(GpuKernels, step_parameters_as_the_host_does) {
  constexpr AdamFactors adam_factors{.rate = 0.013F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F};
  constexpr LambFactors lamb_factors{
      .correction_1 = 0.1F, .correction_2 = 0.001F, .epsilon = 1e-6F, .weight_decay = 0.01F};
  for (const std::size_t distance : {std::size_t{0}, std::size_t{4}}) {
    Arrays a(distance);
    run([&](Kernels& kernels, Stream stream) { return kernels.sgd_step(a.there(0), a.there(3), 0.013F, stream); });
    sgd_step(a.host(0), a.host(3), 0.013F);
    a.expect_same("sgd_step");
    run([&](Kernels& kernels, Stream stream) {
      return kernels.momentum_step(a.there(0), a.there(1), a.there(3), 0.013F, 0.9F, stream);
    });
    momentum_step(a.host(0), a.host(1), a.host(3), 0.013F, 0.9F);
    a.expect_same("momentum_step");
    run([&](Kernels& kernels, Stream stream) {
      return kernels.adam_step(a.there(0), a.there(1), a.there(2), a.there(3), adam_factors, stream);
    });
    adam_step(a.host(0), a.host(1), a.host(2), a.host(3), adam_factors);
    a.expect_same("adam_step");
    run([&](Kernels& kernels, Stream stream) {
      return kernels.adam_moments(a.there(1), a.there(2), a.there(3), 0.9F, 0.999F, stream);
    });
    adam_moments(a.host(1), a.host(2), a.host(3), 0.9F, 0.999F);
    a.expect_same("adam_moments");
    run([&](Kernels& kernels, Stream stream) {
      return kernels.lamb_direction(a.there(3), a.there(0), a.there(1), a.there(2), lamb_factors, stream);
    });
    lamb_direction(a.host(3), a.host(0), a.host(1), a.host(2), lamb_factors);
    a.expect_same("lamb_direction");
  }
}

}  // namespace
}  // namespace lockstep::detail::cuda
