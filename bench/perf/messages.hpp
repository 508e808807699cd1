// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between the two ranks of a pair, by lockstep and by MPI. send_recv is a message to the second rank, and then
// one back; in a halo exchange both ranks send at the same time. The last of an odd number of ranks does nothing.

#pragma once

#include "bench/perf/call.hpp"
#include "bench/perf/peer.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

#include <vector>

namespace perf {

/// One message has the tensors of all replicas of a rank. InFlight posts the asynchronous calls.
class OurMessage final : public Call {
 public:
  using Request = lockstep::Request;

  /// Local.
  OurMessage(const Case& what, const Job& job, const Buffers& buffers, const Options& options,
             lockstep::Communicator communicator);
  /// send_recv only.
  void run() override;

  // for InFlight
  [[nodiscard]] int steps() const noexcept;
  void post(int step, std::vector<lockstep::Request>& requests);
  static void wait_all(std::vector<lockstep::Request>& requests);
  void finish() {}

 private:
  lockstep::Communicator communicator_;
  std::vector<lockstep::ConstTensorView> input_views_;
  std::vector<lockstep::TensorView> output_views_;
};

/// One message for the tensor of each replica of a rank.
class MpiMessage final : public Call {
 public:
  using Request = MPI_Request;

  /// Local. `call` comes from peer_call().
  MpiMessage(const PeerCall& call, const Job& job, const Buffers& buffers, MPI_Comm comm);
  /// send_recv only.
  void run() override;

  // for InFlight
  [[nodiscard]] int steps() const noexcept;
  void post(int step, std::vector<MPI_Request>& requests);
  static void wait_all(std::vector<MPI_Request>& requests);
  void finish() {}

 private:
  [[nodiscard]] int elements(const Region& tensor) const;

  MPI_Comm comm_;
  MPI_Datatype dtype_;
};

}  // namespace perf
