// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/interop/torch.hpp>
#include <lockstep/lockstep.hpp>

#include "support/errors.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

constexpr std::int64_t rows = 23;

struct Net : torch::nn::Module {
  Net() {
    register_module("first", first);
    register_module("second", second);
    register_module("rest", rest);
    torch::manual_seed(7);
    first->reset_parameters();
    second->reset_parameters();
    rest->reset_parameters();
  }
  at::Tensor forward(const at::Tensor& x, bool with_rest = true) {
    const at::Tensor y = second->forward(torch::tanh(first->forward(x)));
    return with_rest ? y + rest->forward(x) : y;
  }
  torch::nn::Linear first{torch::nn::Linear(6, 40)};
  torch::nn::Linear second{torch::nn::Linear(40, 3)};
  torch::nn::Linear rest{torch::nn::Linear(6, 3)};
};

at::Tensor inputs() { return torch::arange(rows * 6, at::kFloat).mul(0.7).sin().view({rows, 6}); }
/// The part of this rank.
at::Tensor inputs(const Communicator& comm) {
  return inputs().slice(0, rows * comm.rank() / comm.size(), rows * (comm.rank() + 1) / comm.size());
}
/// The part of the rows `x` in the mean over all rows.
at::Tensor loss(Net& net, const at::Tensor& x, bool with_rest = true) {
  return (net.forward(x, with_rest) - x.narrow(1, 0, 3).square()).square().sum() / rows;
}

void expect_close(Net& net, Net& expected) {
  const auto values = expected.named_parameters();
  for (const auto& entry : net.named_parameters())
    EXPECT_TRUE(entry->allclose(values[entry.key()], 1e-4, 1e-6)) << entry.key();
}

TEST(GradientReducer, gives_the_parameters_that_one_process_gets_from_all_rows) {
  const Communicator comm = world_communicator();
  at::set_num_threads(1);
  for (const bool to_none : {false, true}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{4} << 20}) {
      Net net;
      Net alone;
      GradientReducer reducer(comm, net, {.op = ReduceOp::sum, .bucket_bytes = bucket_bytes});
      EXPECT_EQ(reducer.bucket_count(), bucket_bytes == 1 ? 7U : 1U);
      torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      torch::optim::SGD optimizer_alone(alone.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int step = 0; step < 10; ++step) {
        optimizer.zero_grad(to_none);
        loss(net, inputs(comm)).backward();
        reducer.finish();
        optimizer.step();
        optimizer_alone.zero_grad();
        loss(alone, inputs()).backward();
        optimizer_alone.step();
      }
      expect_close(net, alone);
      for (const at::Tensor& parameter : net.parameters())
        EXPECT_TRUE(comm.size() == 1 || is_in_arena(parameter.grad().data_ptr(), parameter.nbytes()));
    }
  }
}

TEST(GradientReducer, starts_to_reduce_before_finish) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net, {.bucket_bytes = 1});
  loss(net, inputs(comm)).backward();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (reducer.reduced_count() < 6 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(reducer.reduced_count(), 6U);
  reducer.finish();
}

TEST(GradientReducer, takes_the_mean_unless_another_op_is_given) {
  const Communicator comm = world_communicator();
  torch::nn::Linear net(2, 1);
  GradientReducer reducer(comm, *net);
  net->forward(torch::full({1, 2}, comm.rank() + 1.0)).sum().backward();
  reducer.finish();
  EXPECT_FLOAT_EQ(net->weight.grad()[0][0].item<float>(), static_cast<float>(comm.size() + 1) / 2);
  EXPECT_EQ(code_of([&] { GradientReducer(comm, *net, {.op = ReduceOp::max}); }), Code::invalid_argument);
}

TEST(GradientReducer, reduces_modules_of_other_types_and_leaves_frozen_parameters_alone) {
  const Communicator comm = world_communicator();
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Linear(8, 1));
  net->to(at::kBFloat16);
  net[1]->to(at::kDouble);
  auto& first = net[0]->as<torch::nn::Linear>()->weight;
  net[0]->as<torch::nn::Linear>()->bias.set_requires_grad(false);
  GradientReducer reducer(comm, *net, {.op = ReduceOp::sum});
  const at::Tensor hidden = net[0]->as<torch::nn::Linear>()->forward(torch::ones({1, 4}, at::kBFloat16));
  net[1]->as<torch::nn::Linear>()->forward(hidden.to(at::kDouble)).sum().backward();
  const at::Tensor own = first.grad().clone();
  reducer.finish();
  EXPECT_TRUE(net[1]->as<torch::nn::Linear>()->bias.grad().equal(torch::full({1}, comm.size(), at::kDouble)));
  EXPECT_EQ(first.grad().scalar_type(), at::kBFloat16);
  EXPECT_FALSE(net[0]->as<torch::nn::Linear>()->bias.grad().defined());
}

TEST(GradientReducer, names_unused_parameters_on_all_ranks) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net);
  loss(net, inputs(comm), comm.rank() != 0).backward();
  EXPECT_EQ(error_of([&] { reducer.finish(); }),
            "failed_precondition: GradientReducer::finish: backward has computed no gradient for \"rest.bias\" on 1, "
            "\"rest.weight\" on 1 of " +
                std::to_string(comm.size()) +
                " replicas; the loss must depend on all parameters, or set unused to UnusedParameters::zero");
  loss(net, inputs(comm)).backward();  // the next step
  reducer.finish();
}

TEST(GradientReducer, names_all_parameters_if_a_rank_has_called_no_backward) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net);
  if (comm.rank() != 0) loss(net, inputs(comm)).backward();
  expect_all(error_of([&] { reducer.finish(); }), {"failed_precondition", "\"first.weight\" on 1 of"});
}

TEST(GradientReducer, takes_zeros_for_unused_parameters_if_that_is_set) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net, {.op = ReduceOp::sum, .unused = UnusedParameters::zero});
  for (int step = 0; step < 2; ++step) {
    net.zero_grad(step == 0);
    loss(net, inputs(comm), comm.rank() != 0).backward();
    reducer.finish();
    Net alone;
    const std::int64_t others = rows / comm.size();
    if (comm.size() > 1) {
      loss(alone, inputs().slice(0, 0, others), false).backward();
      loss(alone, inputs().slice(0, others, rows)).backward();
      for (const auto& entry : net.named_parameters())
        EXPECT_TRUE(entry->grad().allclose(alone.named_parameters()[entry.key()].grad(), 1e-4, 1e-6)) << entry.key();
    } else {
      EXPECT_FALSE(net.rest->weight.grad().defined());
    }
  }
  net.zero_grad();
  loss(net, inputs(comm), false).backward();
  reducer.finish();
  EXPECT_FALSE(net.rest->weight.grad().defined());  // no replica has one, so optimizers skip it
  EXPECT_TRUE(net.first->weight.grad().defined());
}

TEST(GradientReducer, refuses_a_second_backward_before_finish) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net);
  loss(net, inputs(comm)).backward();
  const std::string text = error_of([&] { loss(net, inputs(comm)).backward(); });
  expect_all(text, {"failed_precondition: GradientReducer: this is a second backward for \"", "call finish()"});
  reducer.finish();
}

TEST(GradientReducer, names_a_parameter_that_the_module_has_moved) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net);
  net.to(at::kDouble);
  loss(net, inputs(comm).to(at::kDouble)).backward();  // PyTorch has made new nodes, which do not call the reducer
  expect_all(error_of([&] { reducer.finish(); }),
             {"failed_precondition: GradientReducer: the dtype or device of \"", "create it after module.to()"});
}

TEST(GradientReducer, accumulates_under_no_sync) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net, {.op = ReduceOp::sum});
  for (const bool to_none : {true, false}) {
    net.zero_grad(to_none);
    {
      const auto paused = reducer.no_sync();
      { const auto inner = reducer.no_sync(); }  // does not end the outer one
      loss(net, inputs(comm)).backward();
    }
    loss(net, inputs(comm), false).backward();
    reducer.finish();
    Net alone;
    loss(alone, inputs()).backward();
    loss(alone, inputs(), false).backward();
    for (const auto& entry : net.named_parameters())
      EXPECT_TRUE(entry->grad().allclose(alone.named_parameters()[entry.key()].grad(), 1e-4, 1e-6)) << entry.key();
  }
}

TEST(GradientReducer, refuses_a_backward_that_creates_a_graph) {
  const Communicator comm = world_communicator();
  Net net;
  GradientReducer reducer(comm, net);
  const auto code =
      code_of([&] { loss(net, inputs(comm)).backward({}, /*retain_graph=*/true, /*create_graph=*/true); });
  EXPECT_EQ(code, Code::unimplemented);
}

TEST(GradientReducer, fails_on_all_ranks_if_modules_differ) {
  const Communicator comm = world_communicator();
  torch::nn::Linear net(3, comm.rank() == 0 ? 4 : 5);
  GradientReducer reducer(comm, *net);
  net->forward(torch::ones({1, 3})).sum().backward();
  const auto code = code_of([&] { reducer.finish(); });
  EXPECT_EQ(code, comm.size() == 1 ? std::nullopt : std::optional(Code::mismatch));
}

TEST(GradientReducer, refuses_modules_that_do_not_fit_the_replicas) {
  const Communicator comm = world_communicator();
  torch::nn::Linear net(3, 4);
  const std::vector<torch::nn::Module*> two{net.get(), net.get()};
  expect_all(error_of([&] { GradientReducer(comm, two); }), {"there are 2 modules, but this rank has 1 replicas"});
  for (at::Tensor& parameter : net->parameters()) parameter.set_requires_grad(false);
  expect_all(error_of([&] { GradientReducer(comm, *net); }), {"no parameter of the module requires a gradient"});
}

TEST(GradientReducer, leaves_the_module_usable_when_it_is_destroyed) {
  const Communicator comm = world_communicator();
  Net net;
  {
    GradientReducer reducer(comm, net);
    loss(net, inputs(comm)).backward();
    reducer.finish();
  }
  net.zero_grad(false);
  Net alone;
  for (int i = 0; i < 2; ++i) {
    loss(net, inputs()).backward();
    loss(alone, inputs()).backward();
  }
  EXPECT_TRUE(net.first->weight.grad().equal(alone.first->weight.grad()));
}

}  // namespace
}  // namespace lockstep::test
