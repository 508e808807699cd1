// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A mistake to be found: in the last step rank 1 leaves out a call. Start it with mpirun on three ranks, then ask
// lockstep-explain what happened.

#include <lockstep/lockstep.hpp>

#include <vector>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  auto comm = lockstep::world_communicator({.name = "world"});
  std::vector<float> gradient(4);
  std::vector<float> weights(8);
  for (int step = 0; step < 3; ++step) {
    const bool forgets = step == 2 && comm.rank() == 1;
    if (!forgets) comm.all_reduce(gradient, lockstep::ReduceOp::mean);
    comm.broadcast(weights, 0);
  }
}
