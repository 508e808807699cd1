// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Trains on REPLICAS replicas per rank, each with a module of its own, and prints a hash of the parameters of all
// replicas' modules, which must be equal: torch-layouts REPLICAS.

#include <lockstep/interop/torch.hpp>
#include <lockstep/lockstep.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

std::uint64_t hash_of(const torch::nn::Module& module) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const at::Tensor& parameter : module.parameters()) {
    const auto* const bytes = static_cast<const unsigned char*>(parameter.const_data_ptr());
    for (std::size_t i = 0; i < parameter.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211U;
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  std::vector<lockstep::Device> devices;
  for (int i = 0; i < std::atoi(argv[1]); ++i) devices.push_back({lockstep::DeviceKind::cpu, i});
  lockstep::MultiWorkerMirroredStrategy strategy({.devices = devices});
  at::set_num_threads(1);

  std::vector<torch::nn::Sequential> nets;
  std::vector<torch::nn::Module*> modules;
  std::vector<torch::optim::Adam> optimizers;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    nets.emplace_back(torch::nn::Linear(8, 50), torch::nn::ReLU(), torch::nn::Linear(50, 3));
    modules.push_back(nets.back().get());
    if (strategy.is_chief() && i == 0) {
      torch::manual_seed(3);
      for (at::Tensor& parameter : nets[0]->parameters()) torch::nn::init::uniform_(parameter, -0.3, 0.3);
    }
    optimizers.emplace_back(nets.back()->parameters(), torch::optim::AdamOptions(0.01));
  }
  lockstep::broadcast_parameters(strategy.communicator(), modules);
  lockstep::GradientReducer reducer(strategy.communicator(), modules, {.bucket_bytes = 1000});
  for (int step = 0; step < 20; ++step) {
    strategy.run([&](lockstep::ReplicaContext& replica) {
      const auto i = static_cast<std::size_t>(replica.local_replica());
      const int id = replica.replica_id_in_sync_group();
      const std::int64_t rows = 5 + id;
      const at::Tensor x = torch::arange(rows * 8, at::kFloat).add(100 * step + 10 * id).sin().view({rows, 8});
      optimizers[i].zero_grad();
      (nets[i]->forward(x) - x.narrow(1, 0, 3).abs()).square().mean().backward();
      reducer.finish(replica);
      optimizers[i].step();
    });
  }
  std::uint64_t hash = hash_of(*modules[0]);
  for (const torch::nn::Module* module : modules) {
    if (hash_of(*module) != hash) return 1;
  }
  strategy.communicator().broadcast(hash, 0);
  if (hash != hash_of(*modules[0])) return 1;
  if (strategy.is_chief())
    std::printf("%d replicas, %016llx\n", strategy.num_replicas_in_sync(), static_cast<unsigned long long>(hash));
}
