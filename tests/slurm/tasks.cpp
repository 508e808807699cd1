// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Prints each rank's place in the job by two resolvers, one line each:
//
//   HOST slurm TYPE ID ADDRESS                             from Slurm's variables
//   HOST slurm refused TEXT                                if Slurm's variables are not valid for this rank
//   HOST mpi TYPE ID ADDRESS local LOCAL_RANK LOCAL_SIZE   from the communicator; not with --no-mpi

#include <lockstep/lockstep.hpp>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace {

std::string own_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string described(const lockstep::ClusterResolver& resolver) {
  return resolver.task_type() + " " + std::to_string(resolver.task_id()) + " " + resolver.master();
}

std::string from_slurm() {
  try {
    return "slurm " + described(lockstep::SlurmClusterResolver());
  } catch (const lockstep::Error& error) {
    return std::string("slurm refused ") + error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool with_mpi = argc < 2 || std::string_view(argv[1]) != "--no-mpi";
  const std::string host = own_host();
  std::optional<lockstep::Environment> environment;
  if (with_mpi) environment.emplace(argc, argv);
  std::string text = host + " " + from_slurm() + "\n";
  if (with_mpi) {
    text += host + " mpi " + described(lockstep::MpiClusterResolver()) + " local " +
            std::to_string(environment->local_rank()) + " " + std::to_string(environment->local_size()) + "\n";
    if (environment->rank() == 0) text += environment->describe();
  }
  // one write, because ranks share the output
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
