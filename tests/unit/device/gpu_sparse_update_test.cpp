// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the kernels for sparse updates, executed on the host by simulated GPU threads.

#include "device/cuda/arguments.hpp"
#include "kernels/sparse_update.hpp"
#include "support/canonical_sum.hpp"
#include "support/run_on_host.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <random>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

using test::Bytes;

constexpr ElementOp arithmetic[]{ElementOp::add, ElementOp::sub, ElementOp::mul,
                                 ElementOp::div, ElementOp::min, ElementOp::max};

/// A matrix and slices for some of its rows, both at some distance from an aligned address.
struct RowCase {
  DType dtype;
  std::int64_t rows;
  std::int64_t width;
  std::vector<std::int64_t> indices;
  std::int64_t distance = 0;

  [[nodiscard]] Bytes target() const { return test::awkward_values(dtype, distance + rows * width, 1); }
  [[nodiscard]] Bytes slices(ElementOp op) const {
    const auto count = static_cast<std::int64_t>(indices.size());
    Bytes bytes = test::awkward_values(dtype, distance + count * width, 2);
    if (op == ElementOp::div && is_integer(dtype)) {
      for (std::byte& byte : bytes) byte |= std::byte{1};  // no integer is divided by 0
    }
    return bytes;
  }
};

/// The matrix after `update`.
Bytes updated(const RowCase& what, ElementOp op, int divisor, const std::function<void(const SparseUpdate&)>& update) {
  Bytes target = what.target();
  const Bytes slices = what.slices(op);
  const std::vector<RowStep> steps = steps_by_row(what.indices);
  const std::size_t distance_bytes = static_cast<std::size_t>(what.distance) * size_of(what.dtype);
  update({.op = op,
          .dtype = what.dtype,
          .target = target.data() + distance_bytes,
          .slices = slices.data() + distance_bytes,
          .width = what.width,
          .steps = steps,
          .divisor = divisor});
  return target;
}

void expect_bits_of_the_host(const RowCase& what) {
  for (const ElementOp op : arithmetic) {
    for (const int divisor : {1, 3}) {
      if (divisor != 1 && !is_floating_point(what.dtype)) continue;
      const Bytes got = updated(what, op, divisor, [](const SparseUpdate& update) {
        Bytes carried(static_cast<std::size_t>(update.width) * 8);
        sparse_update_on_host(update, carried.data());
      });
      const Bytes expected =
          updated(what, op, divisor, [](const SparseUpdate& update) { detail::apply_sparse_update(update); });
      ASSERT_TRUE(got == expected) << "op " << static_cast<int>(op) << ", " << to_string(what.dtype) << " width "
                                   << what.width << ", " << what.indices.size() << " slices / " << divisor;
    }
  }
}

void for_dtypes(const std::function<void(DType)>& body) {
  for (int d = 0; d < dtype_count; ++d) {
    if (static_cast<DType>(d) != DType::boolean) body(static_cast<DType>(d));
  }
}

std::vector<std::int64_t> random_indices(std::size_t count, std::int64_t rows) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::int64_t> indices(count);
  for (std::int64_t& index : indices) index = static_cast<std::int64_t>(random()) % rows;
  return indices;
}

TEST(GpuSparseUpdate, have_the_bits_of_the_host_for_every_op_dtype_and_width) {
  for_dtypes([](DType dtype) {
    for (const std::int64_t width : {1, 2, 3, 8, 16, 40, 1031}) {
      for (const std::int64_t distance : {0, 1}) {
        expect_bits_of_the_host({dtype, 9, width, {7, 2, 2, 0, 7, 2, 8, 2, 2, 2}, distance});
      }
    }
  });
}

TEST(GpuSparseUpdate, take_any_number_of_slices) {
  for_dtypes([](DType dtype) {
    constexpr auto most = static_cast<std::size_t>(Kernels::most_row_steps);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, most - 1, most, most + 1, 2 * most, 5 * most + 3}) {
      expect_bits_of_the_host({dtype, 2000, 4, random_indices(count, 2000)});
      expect_bits_of_the_host({dtype, 7, 3, random_indices(count, 7)});
    }
  });
}

TEST(GpuSparseUpdate, that_are_named_in_many_launches_are_rounded_once) {
  constexpr std::int64_t width = 8;
  const std::vector<std::int64_t> indices(1000, 1);
  std::vector<BFloat16> target(3 * width, BFloat16(256.0F));
  const std::vector<BFloat16> slices(indices.size() * width, BFloat16(1.0F));
  std::vector<float> carried(width);
  const std::vector<RowStep> steps = steps_by_row(indices);
  sparse_update_on_host(
      {.dtype = DType::bf16, .target = target.data(), .slices = slices.data(), .width = width, .steps = steps},
      carried.data());
  for (std::size_t i = 0; i < target.size(); ++i) {
    EXPECT_EQ(float(target[i]), i / width == 1 ? 1256.0F : 256.0F) << i;
  }
}

TEST(GpuSparseUpdate, are_written_in_launches_without_gaps) {
  std::vector<std::int64_t> indices = random_indices(3000, 50);
  const std::vector<RowStep> steps = steps_by_row(indices);
  char carried = 0;
  const SparseUpdate update{.width = 1, .steps = steps};
  std::size_t next = 0;
  const Status status =
      with_sparse_update_arguments<Plain<float, ReduceOp::sum>>(update, &carried, [&](const SparseUpdateArguments& a) {
        EXPECT_EQ(a.begins_inside, next > 0 && steps[next - 1].row == steps[next].row);
        for (int r = 0; r < a.row_count; ++r) {
          for (int k = a.first_step[r]; k < a.first_step[r + 1]; ++k, ++next) {
            EXPECT_EQ(a.rows[r], steps[next].row);
            EXPECT_EQ(a.slice_of[k], steps[next].slice);
          }
        }
        EXPECT_EQ(a.ends_inside, next < steps.size() && steps[next].row == steps[next - 1].row);
        return Status::success;
      });
  EXPECT_EQ(status, Status::success);
  EXPECT_EQ(next, steps.size());
}

}  // namespace
}  // namespace lockstep::detail::cuda
