// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/expect_error.hpp"

#include <lockstep/interop/dlpack.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using test::expect_error;

/// Another library's tensor of six floats, which counts how often it is let go.
struct Foreign {
  std::vector<float> elements{0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape{2, 3};
  std::vector<std::int64_t> strides;
  int deletions = 0;
  DLManagedTensor managed{};

  explicit Foreign(std::vector<std::int64_t> strides_ = {}) : strides(std::move(strides_)) {
    managed.dl_tensor.data = elements.data();
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 32, 1};
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deletions; };
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  ~Foreign() = default;

  void expect_refusal(const std::vector<std::string>& words) {
    expect_error(Code::invalid_argument, words, [this] { static_cast<void>(from_dlpack(&managed)); });
    EXPECT_EQ(deletions, 1);
  }
};

TEST(DLPack, gives_all_that_a_tensor_is) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor tensor(dtype, Shape{2, 3});
    DLManagedTensor* const given = to_dlpack(tensor);
    EXPECT_EQ(given->dl_tensor.data, tensor.data());
    EXPECT_EQ(given->dl_tensor.device.device_type, kDLCPU);
    EXPECT_EQ(given->dl_tensor.dtype.bits, 8 * size_of(dtype));
    EXPECT_EQ(given->dl_tensor.shape[1], 3);
    EXPECT_EQ(given->dl_tensor.strides[0], 3);
    EXPECT_EQ(given->dl_tensor.strides[1], 1);
    const Tensor back = from_dlpack(given);
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(back.data(), tensor.data());
  }
}

TEST(DLPack, names_element_types_as_others_do) {
  const auto code_of = [](DType dtype) {
    const Tensor back = Tensor(dtype, Shape{});
    DLManagedTensor* const given = to_dlpack(back);
    const int code = given->dl_tensor.dtype.code;
    given->deleter(given);
    return code;
  };
  EXPECT_EQ(code_of(DType::i8), kDLInt);
  EXPECT_EQ(code_of(DType::i64), kDLInt);
  EXPECT_EQ(code_of(DType::u8), kDLUInt);
  EXPECT_EQ(code_of(DType::u64), kDLUInt);
  EXPECT_EQ(code_of(DType::f16), kDLFloat);
  EXPECT_EQ(code_of(DType::f64), kDLFloat);
  EXPECT_EQ(code_of(DType::bf16), kDLBfloat);
  EXPECT_EQ(code_of(DType::boolean), 6);
}

TEST(DLPack, keeps_the_elements_until_the_other_library_lets_them_go) {
  Tensor tensor = Tensor::from(std::vector<float>{1, 2, 3});
  DLManagedTensor* const given = to_dlpack(std::move(tensor));
  tensor = Tensor();
  EXPECT_EQ(static_cast<const float*>(given->dl_tensor.data)[2], 3);
  given->deleter(given);
}

TEST(DLPack, shares_anothers_elements_and_lets_them_go_once) {
  Foreign foreign;
  {
    Tensor tensor = from_dlpack(&foreign.managed);
    Tensor same = tensor;
    EXPECT_EQ(same.shape(), (Shape{2, 3}));
    same.elements<float>()[5] = 7;
    EXPECT_EQ(foreign.elements[5], 7);
    EXPECT_EQ(foreign.deletions, 0);
  }
  EXPECT_EQ(foreign.deletions, 1);
}

TEST(DLPack, takes_dense_strides_an_offset_and_page_locked_memory) {
  Foreign foreign({3, 1});
  foreign.managed.dl_tensor.device.device_type = kDLCUDAHost;
  foreign.shape[0] = 1;
  foreign.strides[0] = 100;  // of an axis with a single step
  foreign.managed.dl_tensor.byte_offset = 3 * sizeof(float);
  const Tensor tensor = from_dlpack(&foreign.managed);
  EXPECT_EQ(tensor.device(), Device{});
  EXPECT_EQ(tensor.elements<float>()[2], 5);
}

TEST(DLPack, knows_gpus_by_their_numbers) {
  Foreign foreign;
  foreign.managed.dl_tensor.device = {kDLCUDA, 3};
  const Tensor tensor = from_dlpack(&foreign.managed);
  EXPECT_EQ(tensor.device(), (Device{DeviceKind::gpu, 3}));
  DLManagedTensor* const given = to_dlpack(tensor);
  EXPECT_EQ(given->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(given->dl_tensor.device.device_id, 3);
  given->deleter(given);
}

TEST(DLPack, refuses_what_no_tensor_can_be_and_lets_it_go) {
  Foreign({1, 2}).expect_refusal({"strides", "[1, 2]", "[2, 3]", "contiguous"});
  {
    Foreign foreign;
    foreign.managed.dl_tensor.dtype = {kDLComplex, 64, 1};
    foreign.expect_refusal({"type code 5", "64 bits"});
  }
  {
    Foreign foreign;
    foreign.managed.dl_tensor.dtype.lanes = 4;
    foreign.expect_refusal({"4 lanes"});
  }
  {
    Foreign foreign;
    foreign.managed.dl_tensor.device.device_type = kDLVulkan;
    foreign.expect_refusal({"device of type 7"});
  }
  {
    Foreign foreign;
    foreign.managed.dl_tensor.ndim = -1;
    foreign.expect_refusal({"axes", "-1"});
  }
  expect_error(Code::invalid_argument, {"null"}, [] { static_cast<void>(from_dlpack(nullptr)); });
}

TEST(DLPack, needs_no_deleter_and_no_elements) {
  Foreign foreign;
  foreign.managed.deleter = nullptr;
  foreign.shape[0] = 0;
  foreign.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(&foreign.managed).element_count(), 0);
}

/// As Foreign, in the form of DLPack 1.x.
struct VersionedForeign {
  std::vector<float> elements{0, 1, 2};
  std::int64_t extent = 3;
  int deletions = 0;
  detail::dlpack::Versioned managed{};

  VersionedForeign() {
    managed.version = {1, 1};
    managed.dl_tensor = {elements.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &extent, nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](detail::dlpack::Versioned* self) {
      ++static_cast<VersionedForeign*>(self->manager_ctx)->deletions;
    };
  }
};

TEST(DLPack, of_version_1_is_taken_and_given) {
  VersionedForeign foreign;
  {
    const Tensor tensor = from_dlpack(&foreign.managed);
    EXPECT_EQ(tensor.elements<float>()[2], 2);
    EXPECT_EQ(foreign.deletions, 0);
  }
  EXPECT_EQ(foreign.deletions, 1);
  const Tensor tensor(DType::f32, Shape{2, 3});
  detail::dlpack::Versioned* const given = to_dlpack_versioned(tensor);
  EXPECT_EQ(given->version.major, 1U);
  EXPECT_EQ(given->flags, 0U);
  EXPECT_EQ(from_dlpack(given).data(), tensor.data());
}

TEST(DLPack, of_another_major_version_or_read_only_is_refused_and_given_back) {
  VersionedForeign later;
  later.managed.version = {2, 0};
  expect_error(Code::invalid_argument, {"from_dlpack: the version is 2.0; the major version must be 1"},
               [&] { static_cast<void>(from_dlpack(&later.managed)); });
  EXPECT_EQ(later.deletions, 1);
  VersionedForeign constant;
  constant.managed.flags = detail::dlpack::read_only_flag;
  expect_error(Code::invalid_argument, {"from_dlpack: the elements are read-only"},
               [&] { static_cast<void>(from_dlpack(&constant.managed)); });
  EXPECT_EQ(constant.deletions, 1);
}

TEST(DLPack, refuses_a_stream_for_elements_in_host_memory) {
  Foreign foreign;
  int stream = 0;
  expect_error(Code::invalid_argument, {"from_dlpack: a stream is given, but the elements are on cpu:0"},
               [&] { static_cast<void>(from_dlpack(&foreign.managed, &stream)); });
  EXPECT_EQ(foreign.deletions, 1);
  expect_error(Code::invalid_argument, {"to_dlpack: a stream is given"},
               [&] { static_cast<void>(to_dlpack(Tensor(), &stream)); });
}

}  // namespace
}  // namespace lockstep
