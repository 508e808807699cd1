// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/mpi_cluster_resolver.hpp>

#include "base/check.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/mpi/pending.hpp"
#include "cluster/cluster_tasks.hpp"
#include "cluster/job.hpp"
#include "cluster/settings.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr std::string_view mpi_resolver = "MpiClusterResolver";
using HostName = std::array<char, MPI_MAX_PROCESSOR_NAME>;

/// Host name of every rank. Collective. Throws Error(deadline_exceeded) if a rank does not make this call.
std::vector<HostName> names_of_hosts(int ranks) {
  HostName own{};
  int length = 0;
  {
    const auto inside = detail::mpi::serialize();
    detail::mpi::check(MPI_Get_processor_name(own.data(), &length), "MPI_Get_processor_name");
  }
  const detail::Settings settings = detail::settings_from_environment();
  detail::mpi::PendingAllGather gather(MPI_COMM_WORLD, ranks, own.data(), own.size());
  detail::await_all_ranks([&] { return gather.test(); }, settings, mpi_resolver);
  return gather.all_as<HostName>();
}

/// The largest number of ranks on one host.
int ranks_of_one(const std::vector<HostName>& hosts) {
  std::map<std::string_view, int> counts;
  int most = 0;
  for (const HostName& host : hosts) most = std::max(most, ++counts[host.data()]);
  return most;
}

SimpleClusterResolver resolver_of(const MpiResolverOptions& options) {
  namespace mpi = detail::mpi;
  if (!mpi::is_active()) {
    detail::throw_error(Code::failed_precondition, "{}: MPI is not initialized; create a lockstep::Environment first",
                        mpi_resolver);
  }
  int rank = 0;
  int ranks = 0;
  {
    const auto inside = mpi::serialize();
    mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  }
  const std::vector<HostName> hosts = names_of_hosts(ranks);
  // from here on all ranks have the same data, so all ranks throw the same errors
  detail::check_ports(options.port_base, ranks_of_one(hosts), mpi_resolver);
  std::map<std::string_view, int> ports;
  std::vector<std::string> addresses;
  for (const HostName& host : hosts) {
    const int port = ports.try_emplace(host.data(), options.port_base).first->second++;
    addresses.push_back(fmt::format("{}:{}", host.data(), port));
  }
  ClusterSpec spec = detail::assign_to_jobs(options.jobs, std::move(addresses), mpi_resolver, "the number of ranks is");
  auto [type, id] = detail::task_of_rank(options.jobs, rank);
  return SimpleClusterResolver(std::move(spec), {std::move(type), id});
}

}  // namespace

MpiClusterResolver::MpiClusterResolver(const MpiResolverOptions& options) : ClusterResolver(resolver_of(options)) {}

}  // namespace lockstep
