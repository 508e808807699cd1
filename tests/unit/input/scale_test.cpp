// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/scale.hpp>

#include <lockstep/core/float16.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::input {
namespace {

TEST(ScaleToFloat, multiplies_every_byte_in_f32) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 3 * 256 + 5; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
  const float scale = 1 / 255.F;
  const Tensor scaled = scale_to_float(Tensor::from(bytes), scale);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(scaled.elements<float>()[i], static_cast<float>(bytes[i]) * scale);
  EXPECT_EQ(scaled.elements<float>()[0], 0.F);
}

TEST(ScaleToFloat, takes_every_element_type_and_keeps_the_shape) {
  const auto half = [](const Tensor& tensor) { return scale_to_float(tensor, 0.5F).elements<float>()[1]; };
  EXPECT_EQ(half(Tensor::from(std::vector<std::int8_t>{0, -3})), -1.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<std::int16_t>{0, -300})), -150.F);
  EXPECT_EQ(half(Tensor::from(std::vector<std::int32_t>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<std::int64_t>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<std::uint16_t>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<std::uint32_t>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<std::uint64_t>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<float>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<double>{0, 7})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<Float16>{Float16(0.F), Float16(7.F)})), 3.5F);
  EXPECT_EQ(half(Tensor::from(std::vector<BFloat16>{BFloat16(0.F), BFloat16(7.F)})), 3.5F);
  Tensor flags(DType::boolean, Shape{2, 1});
  flags.elements<bool>()[1] = true;
  EXPECT_EQ(half(flags), 0.5F);
  EXPECT_EQ(scale_to_float(flags, 1).shape(), (Shape{2, 1}));
  EXPECT_EQ(scale_to_float(Tensor(DType::u8, Shape{0, 784}), 1).shape(), (Shape{0, 784}));
}

}  // namespace
}  // namespace lockstep::input
