// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes transports over MPI. A communicator over MPI_COMM_WORLD gets an MPI communicator of its own, by MPI_Comm_idup
// of the job's MPI communicator. Any other communicator uses the MPI communicator of its parent, with separate tags,
// for two reasons. MPI-3.1 has no nonblocking call that makes a communicator of some of the ranks. And if a failure
// interrupts an MPI_Comm_idup, later MPI_Comm_idup calls may never complete (Open MPI completes them in the order of
// context ids).

#pragma once

#include <lockstep/base/error.hpp>

#include "cluster/settings.hpp"
#include "transport/mpi/context.hpp"
#include "transport/mpi/transport_trial.hpp"
#include "transport/tcp/network.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The ranks of a group over MPI, and the options of the group.
struct MpiRanks {
  std::shared_ptr<Context> context;
  std::vector<int> context_ranks;    ///< rank of each member in the communicator of `context`
  std::vector<int> leaders;          ///< for each member, the lowest member of its node
  std::vector<ProcessId> processes;  ///< processes of the members on the node of this rank, in their order
  int rank = 0;
  int slot = 0;         ///< see Tags; 0 if the context was made for the group, and has the same ranks in the same order
  bool is_job = false;  ///< true for the transport of the job
  bool share_memory = true;
  std::size_t segment_bytes = 0;
  std::vector<int> on_same_processors = {};                ///< see Transport::ranks_on_same_processors
  std::shared_ptr<const std::vector<int>> job_ranks = {};  ///< of the ranks of `context`; may be null with MPI
  TransportSetting transport = TransportSetting::mpi;      ///< between nodes
  std::shared_ptr<const std::string> why_chosen = {};      ///< see Transport::why_chosen; null: no choice
  std::chrono::milliseconds time_to_connect{2000};         ///< over TCP, while the ranks choose
  std::shared_ptr<TcpNetwork> network = {};                ///< null: this rank has none
  std::vector<int> peers = {};                             ///< of the network, by member; empty: not known yet
  std::uint64_t group_id = 0;                              ///< of the group in the network

  [[nodiscard]] int size() const noexcept { return static_cast<int>(context_ranks.size()); }
  [[nodiscard]] int nodes() const noexcept;
  /// The members on the node of this rank, in the order of their ranks.
  [[nodiscard]] std::vector<int> ranks_here() const;
};

/// The number that this rank proposes for its next transport.
[[nodiscard]] std::uint64_t next_transport_number();

class MpiGroup final : public NewGroup {
 public:
  /// Makes groups from ranks of `parent`. Local.
  explicit MpiGroup(MpiRanks parent);
  /// Makes the group of all ranks of a context that was made for this group. `leader` becomes Introduction::leader.
  /// Local.
  [[nodiscard]] static std::unique_ptr<MpiGroup> first_of(MpiRanks ranks, int leader);
  /// Sets the leaders of the ranks. Called only on a result of `first_of`, before `join`. Local.
  void set_nodes(std::vector<int> leaders) { parent_.leaders = std::move(leaders); }

  /// Whether the ranks of a first group have to exchange what `identity` returns, and call `learn_peers`, after `join`.
  [[nodiscard]] bool needs_identities() const noexcept {
    return ranks_.transport != TransportSetting::mpi && ranks_.peers.empty() && !tcp_error_;
  }
  /// By which the other ranks connect to this one; empty if it has no network.
  [[nodiscard]] TcpIdentity identity() const;
  /// `all` is by rank.
  void learn_peers(std::span<const TcpIdentity> all);
  /// Called until it returns true, after that: the ranks have chosen between MPI and TCP, if they have to.
  [[nodiscard]] bool test_trial();

  Introduction introduction() const override;
  void join(std::span<const Introduction> all, std::span<const int> members) override;
  bool needs_context() const noexcept override { return needs_context_; }
  void start_context() override {}
  bool test_context() override;
  void abandon_context() noexcept override;
  Vote vote() override;
  bool accept(std::span<const Vote> votes) override;
  std::unique_ptr<Transport> take() override;

 private:
  void choose_context(std::span<const int> members);
  void agree_on_transport(std::span<const Introduction> all);
  void choose(TransportChoice choice, std::string why);
  void use(TransportChoice choice, std::shared_ptr<const std::string> why);
  [[nodiscard]] TransportTrial::Pair pair() const;
  void open_memory(std::span<const Introduction> all);
  void decide_memory(std::span<const Vote> votes);

  MpiRanks parent_;
  bool is_first_ = false;
  int leader_ = -1;
  ProcessGroupOffer offer_;
  std::uint64_t number_ = 0;
  std::uint64_t duplicates_ = 0;  // largest number of duplicates that any rank has begun
  std::vector<int> members_;      // ranks of the parent
  MpiRanks ranks_;
  bool needs_context_ = false;
  bool has_context_ = false;
  std::unique_ptr<mpi::PendingDuplicate> duplicate_;
  std::unique_ptr<mpi::PendingAllGather> identities_;
  std::unique_ptr<TransportTrial> trial_;
  int attempts_ = 0;
  bool has_slot_ = false;
  bool is_automatic_ = false;       // the ranks may choose MPI
  std::optional<Error> tcp_error_;  // why ranks have no transport in common; the same on all ranks
  bool has_opened_ = false;         // whether the memory of the ranks of this node is mapped
  std::unique_ptr<NodeGroup> group_;
};

/// Makes a transport over `ranks`. Local.
[[nodiscard]] std::unique_ptr<Transport> make_transport(MpiRanks ranks, std::uint64_t number,
                                                        std::unique_ptr<NodeGroup> group);
/// The same, with messages and transfers over TCP (tcp/network), but for those between ranks of a node that share
/// memory. `ranks` has a network. Local.
[[nodiscard]] std::unique_ptr<Transport> make_tcp_transport(MpiRanks ranks, std::uint64_t number,
                                                            std::unique_ptr<NodeGroup> group);

}  // namespace lockstep::detail
