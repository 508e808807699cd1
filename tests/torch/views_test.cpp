// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/interop/torch.hpp>
#include <lockstep/lockstep.hpp>

#include "support/errors.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

namespace lockstep::test {
namespace {

TEST(TorchView, has_the_elements_the_type_and_the_shape_of_the_tensor) {
  const std::map<at::ScalarType, DType> types{
      {at::kHalf, DType::f16}, {at::kBFloat16, DType::bf16}, {at::kFloat, DType::f32}, {at::kDouble, DType::f64},
      {at::kChar, DType::i8},  {at::kShort, DType::i16},     {at::kInt, DType::i32},   {at::kLong, DType::i64},
      {at::kByte, DType::u8},  {at::kBool, DType::boolean}};
  for (const auto& [type, dtype] : types) {
    at::Tensor tensor = at::zeros({2, 3}, type);
    const TensorView view = view_of(tensor);
    EXPECT_EQ(view.data, tensor.data_ptr());
    EXPECT_EQ(view.dtype, dtype);
    EXPECT_EQ(view.shape, (Shape{2, 3}));
    EXPECT_EQ(view.device, Device{});
    EXPECT_EQ(view.byte_count(), tensor.nbytes());
  }
  const at::Tensor read = at::ones({}, at::kDouble);
  EXPECT_EQ(*static_cast<const double*>(view_of(read).data), 1);
  EXPECT_EQ(view_of(read).shape, Shape{});
}

TEST(TorchView, is_refused_with_the_reason_where_there_is_none) {
  const auto text_for = [](at::Tensor tensor) { return error_of([&] { (void)view_of(tensor); }); };
  EXPECT_EQ(text_for({}), "invalid_argument: view_of: the tensor is undefined");
  EXPECT_EQ(
      text_for(at::zeros({2, 3}).t()),
      "invalid_argument: view_of: the tensor has shape [3, 2] and strides [1, 3], which are not row-major without "
      "gaps; call contiguous() first");
  EXPECT_EQ(text_for(at::zeros({2}, at::kComplexFloat)),
            "invalid_argument: view_of: the tensor has elements of type ComplexFloat; the type must be Half, BFloat16, "
            "Float, Double, Bool, or an integer");
  EXPECT_EQ(text_for(at::eye(2).to_sparse()),
            "invalid_argument: view_of: the tensor has layout Sparse; the layout must be Strided");
  EXPECT_EQ(text_for(at::empty({2}, at::TensorOptions(at::kMeta))),
            "invalid_argument: view_of: the tensor is on device meta; the device must be cpu or cuda");
  EXPECT_EQ(text_for(at::imag(at::zeros({1}, at::kComplexFloat).conj())),
            "invalid_argument: view_of: the tensor is a lazy conjugate or negative; call resolve_neg() first");
}

TEST(TorchView, is_an_argument_of_collectives) {
  const Communicator comm = world_communicator();
  at::Tensor values = at::full({3}, comm.rank() + 1, at::kInt);
  comm.all_reduce(view_of(values), ReduceOp::sum);
  EXPECT_TRUE(values.equal(at::full({3}, comm.size() * (comm.size() + 1) / 2, at::kInt)));
}

/// Parameters, a buffer of integers, a tensor with two names, and one that is not row-major.
struct Net : torch::nn::Module {
  Net() {
    register_module("norm", norm);
    register_parameter("weight", weight);
    register_parameter("same", weight);
    register_parameter("channels_last", channels_last);
  }
  torch::nn::BatchNorm1d norm{torch::nn::BatchNorm1d(4)};
  at::Tensor weight = torch::randn({5});
  at::Tensor channels_last = torch::randn({1, 2, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
};

TEST(BroadcastParameters, copies_all_parameters_and_buffers_of_the_root) {
  const Communicator comm = world_communicator();
  const int root = comm.size() - 1;
  torch::manual_seed(root);
  Net expected;
  expected.norm->num_batches_tracked.fill_(root);
  torch::manual_seed(comm.rank());
  Net net;
  net.norm->num_batches_tracked.fill_(comm.rank());
  broadcast_parameters(comm, net, root);
  for (const auto& entry : expected.named_parameters()) EXPECT_TRUE(net.named_parameters()[entry.key()].equal(*entry));
  for (const auto& entry : expected.named_buffers()) EXPECT_TRUE(net.named_buffers()[entry.key()].equal(*entry));
  EXPECT_FALSE(net.channels_last.is_contiguous());
}

TEST(BroadcastParameters, names_a_tensor_that_cannot_be_sent) {
  const Communicator comm = world_communicator();
  torch::nn::Module net;
  net.register_buffer("phase", at::zeros({2}, comm.rank() == 0 ? at::kComplexFloat : at::kFloat));
  const std::string text = error_of([&] { broadcast_parameters(comm, net); });
  expect_all(text, {comm.rank() == 0 ? "invalid_argument" : "unavailable",
                    "broadcast_parameters: \"phase\" has elements of type ComplexFloat"});
}

TEST(BroadcastParameters, fails_on_all_ranks_if_modules_differ) {
  const Communicator comm = world_communicator();
  torch::nn::Linear net(3, comm.rank() == 0 ? 4 : 5);
  const std::string text = error_of([&] { broadcast_parameters(comm, *net); });
  if (comm.size() == 1) return;
  expect_all(text, {"mismatch", "broadcast_parameters"});
}

}  // namespace
}  // namespace lockstep::test
