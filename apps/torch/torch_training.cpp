// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Trains a network of libtorch on all ranks: mpirun -n 3 example-torch-training [alone]. With "alone", every rank
// trains on all rows by itself; rank 0 prints the same losses, up to rounding.

#include <lockstep/interop/torch.hpp>
#include <lockstep/lockstep.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const bool alone = argc == 2 && std::string_view(argv[1]) == "alone";
  if (argc > 1 && !alone) {
    std::fprintf(stderr, "usage: example-torch-training [alone]; the argument is \"%s\"\n", argv[1]);
    return lockstep::exit_code::usage;
  }
  const auto comm = alone ? lockstep::self_communicator() : lockstep::world_communicator();
  at::set_num_threads(1);  // ranks share the cores

  torch::manual_seed(1 + comm.rank());  // the ranks start with different parameters
  torch::nn::Sequential net(torch::nn::Linear(8, 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
  lockstep::broadcast_parameters(comm, *net);  // and get those of rank 0
  lockstep::GradientReducer reducer(comm, *net, {.op = lockstep::ReduceOp::sum});
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  constexpr std::int64_t rows = 1000;
  constexpr std::int64_t batch = 64;  // rows of all ranks; the last batch has 40
  const auto x = torch::arange(rows * 8, torch::kFloat).mul(0.37).sin().view({rows, 8});
  const auto y = x.square().sum(1, /*keepdim=*/true);
  for (int epoch = 0; epoch < 10; ++epoch) {
    double loss_of_epoch = 0;
    for (std::int64_t first = 0; first < rows; first += batch) {
      const std::int64_t count = std::min(batch, rows - first);
      const std::int64_t begin = first + count * comm.rank() / comm.size();  // this rank's rows of the batch
      const std::int64_t end = first + count * (comm.rank() + 1) / comm.size();
      const auto error = net->forward(x.slice(0, begin, end)) - y.slice(0, begin, end);
      const auto loss = error.square().sum() / count;  // the part of these rows in the mean over the batch
      optimizer.zero_grad(/*set_to_none=*/false);
      loss.backward();   // gradients are summed over all ranks as they are computed
      reducer.finish();  // until here
      optimizer.step();
      loss_of_epoch += loss.item<double>() * static_cast<double>(count) / rows;
    }
    loss_of_epoch = comm.all_reduce(loss_of_epoch, lockstep::ReduceOp::sum);
    if (environment.rank() == 0) std::printf("epoch %d, loss %.6f\n", epoch + 1, loss_of_epoch);
  }
}
