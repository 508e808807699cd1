// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Simulated ranks exchange data by messages of simulated MPI: they have no connections over TCP.

#include "base/check.hpp"
#include "transport/mpi/mpi_group.hpp"
#include "transport/mpi/transport_trial.hpp"
#include "transport/tcp/network.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

[[noreturn]] void refuse() { throw_error(Code::internal, "simulated ranks have no TCP"); }

}  // namespace

std::shared_ptr<TcpNetwork> TcpNetwork::of_this_process(const TcpOptions&) { refuse(); }
std::uint64_t TcpNetwork::new_token() { refuse(); }
const TcpIdentity& TcpNetwork::identity() const noexcept {
  static const TcpIdentity none;
  return none;
}
int TcpNetwork::learn(const TcpIdentity&) { refuse(); }

struct TransportTrial::Memory {};
TransportTrial::TransportTrial(MPI_Comm comm, int size, Pair pair, std::shared_ptr<TcpNetwork> network,
                               std::uint64_t group, std::chrono::milliseconds time)
    : comm_(comm), size_(size), pair_(pair), network_(std::move(network)), group_(group), time_of_tcp_(time) {
  refuse();
}
TransportTrial::~TransportTrial() = default;
bool TransportTrial::test() { refuse(); }
std::vector<TrialResult> TransportTrial::results() const { refuse(); }
TrialVerdict verdict_on(std::span<const TrialResult>) { refuse(); }

std::unique_ptr<Transport> make_tcp_transport(MpiRanks, std::uint64_t, std::unique_ptr<NodeGroup>) { refuse(); }

}  // namespace lockstep::detail
