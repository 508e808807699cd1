// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// All ranks of an MPI job, each with REPLICAS devices: mpirun -n 2 example-workers [REPLICAS]. Every replica throws
// darts with random numbers of its own; the digits depend on the number of replicas, not on their layout.

#include <lockstep/lockstep.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const int local_replicas = argc > 1 ? std::atoi(argv[1]) : 1;
  if (local_replicas < 1) {
    std::fprintf(stderr, "usage: example-workers [REPLICAS]; REPLICAS is \"%s\", not a positive number\n", argv[1]);
    return lockstep::exit_code::usage;
  }
  std::vector<lockstep::Device> devices;
  for (int i = 0; i < local_replicas; ++i) devices.push_back({lockstep::DeviceKind::cpu, i});
  lockstep::MultiWorkerMirroredStrategy strategy({.devices = devices});

  constexpr std::int64_t darts = 100000;  // darts per replica and step
  const lockstep::Scope scope = strategy.scope();
  auto generator = lockstep::Generator::from_seed(2);  // in scope: one random stream per replica
  std::int64_t inside = 0;
  std::int64_t thrown = 0;
  for (int step = 0; step < 10; ++step) {
    const auto hits = strategy.run([&] {
      std::vector<double> coordinates(2 * darts);
      generator.uniform(coordinates);
      std::int64_t count = 0;
      for (std::size_t i = 0; i < coordinates.size(); i += 2) {
        const double x = coordinates[i];
        const double y = coordinates[i + 1];
        if (x * x + y * y < 1) ++count;
      }
      return count;
    });
    inside += strategy.reduce(lockstep::ReduceOp::sum, hits);
    thrown += darts * strategy.num_replicas_in_sync();
  }
  if (strategy.is_chief()) {
    const int replicas = strategy.num_replicas_in_sync();
    std::printf("%d replica%s, pi is about %.6f\n", replicas, replicas == 1 ? "" : "s",
                4 * static_cast<double>(inside) / static_cast<double>(thrown));
  }
}
