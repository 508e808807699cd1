// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Prints a hash of each result, which must not depend on how it is computed.
//
//   bits          under mpirun: runs every reducing collective over up to 16 replicas on these ranks, with each
//                 schedule, segment size and kind of memory. Prints one line per result: replicas, collective, dtype,
//                 hash. Exit code 1 if results of two paths or of two ranks differ.
//   bits oracle   prints the same lines, computed by the definition
//
// The lines of every job must be lines of the oracle.

#include <lockstep/cluster/environment.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/memory_resource.hpp>

#include "collectives/host/node_stage.hpp"
#include "collectives/make_communicator.hpp"
#include "support/batch.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::test {
namespace {

constexpr int most_replicas = 16;

/// A path of the reduction; it must not affect the result.
struct Path {
  const char* radices;  ///< empty: chosen by the planner
  int chunks;           ///< number of chunks; 0: chosen by the planner
  bool share_memory;
  std::size_t piece_bytes;
};
constexpr std::size_t whole = std::size_t{1} << 30;
constexpr std::array paths{Path{"", 0, true, whole},     Path{"", 0, false, 1000},     Path{"0", 1, false, 4096},
                           Path{"n.0", 1, true, whole},  Path{"n.0", 3, false, 1000},  Path{"n.r0", 1, true, 4096},
                           Path{"n.f2", 5, true, whole}, Path{"2.2", 2, true, whole},  Path{"r0", 4, false, whole},
                           Path{"f2", 1, true, 1000},    Path{"r2.r2", 3, true, 4096}, Path{"4.f2", 7, false, 1000}};

/// Either a few elements of each type, which every rank reduces completely, or so many that they are divided into
/// slices.
const std::vector<TensorCase>& list(bool is_long) {
  static const std::vector<TensorCase> few{{DType::f32, 3}, {DType::bf16, 17}, {DType::f16, 5}, {DType::f64, 2}};
  static const std::vector<TensorCase> many{
      {DType::f32, 12'011}, {DType::bf16, 3'001}, {DType::f16, 4'099}, {DType::f64, 1'000}, {DType::i32, 77}};
  return is_long ? many : few;
}
/// The items of reduce_scatter, which distributes the elements over the replicas.
std::vector<TensorCase> dealt(int replicas) {
  return {{DType::f32, 700 * replicas}, {DType::bf16, 33 * replicas}, {DType::f64, replicas}};
}

std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}
/// Hash of one replica's part of a scattered sum; the hashes of all parts are added.
std::uint64_t hash_of_part(std::span<const std::byte> bytes, int replica) {
  return hash_of(bytes, 0xcbf29ce484222325u + static_cast<std::uint64_t>(replica) * 0x9e3779b97f4a7c15u);
}

std::string key_of(int replicas, std::string_view collective, DType dtype) {
  return std::to_string(replicas) + " " + std::string(collective) + " " + std::string(to_string(dtype));
}

class Hashes {
 public:
  void note(const std::string& key, std::uint64_t hash, const std::string& how) {
    const auto [entry, is_new] = hashes_.emplace(key, hash);
    if (is_new || entry->second == hash) return;
    differs_ = true;
    std::fprintf(stderr, "%s: %016lx, but %016lx %s\n", key.c_str(), static_cast<unsigned long>(entry->second),
                 static_cast<unsigned long>(hash), how.c_str());
  }
  [[nodiscard]] bool differs() const { return differs_; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& all() const { return hashes_; }
  void print() const {
    for (const auto& [key, hash] : hashes_) std::printf("%s %016lx\n", key.c_str(), static_cast<unsigned long>(hash));
  }

 private:
  std::map<std::string, std::uint64_t> hashes_;
  bool differs_ = false;
};

Hashes by_definition() {
  Hashes hashes;
  for (int replicas = 1; replicas <= most_replicas; ++replicas) {
    for (const bool is_long : {false, true}) {
      const std::string_view size = is_long ? "-long" : "-short";
      for (std::size_t i = 0; i < list(is_long).size(); ++i) {
        const TensorCase& tensor = list(is_long)[i];
        const auto leaves = all_leaves(tensor, i, replicas);
        const auto sum = hash_of(canonical_reduce(ReduceOp::sum, tensor.dtype, leaves));
        hashes.note(key_of(replicas, "all_reduce" + std::string(size), tensor.dtype), sum, {});
        hashes.note(key_of(replicas, "reduce" + std::string(size), tensor.dtype), sum, {});
        const auto mean = hash_of(canonical_reduce(ReduceOp::mean, tensor.dtype, leaves));
        hashes.note(key_of(replicas, "all_reduce_mean" + std::string(size), tensor.dtype), mean, {});
      }
    }
    const auto tensors = dealt(replicas);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Bytes sum = canonical_reduce(ReduceOp::sum, tensors[i].dtype, all_leaves(tensors[i], i, replicas));
      const std::size_t part = sum.size() / static_cast<std::size_t>(replicas);
      std::uint64_t hash = 0;
      for (int r = 0; r < replicas; ++r)
        hash += hash_of_part(std::span(sum).subspan(static_cast<std::size_t>(r) * part, part), r);
      hashes.note(key_of(replicas, "reduce_scatter", tensors[i].dtype), hash, {});
    }
  }
  return hashes;
}

/// The buffers of one call on this rank: one output per local replica; in place if `outputs` is empty.
class Buffers {
 public:
  Buffers(const std::vector<TensorCase>& tensors, const Communicator& comm, std::shared_ptr<MemoryResource> resource)
      : resource_(std::move(resource)), views_(tensors.size()), inputs_(tensors.size()), outputs_(tensors.size()) {
    const ReplicaLayout& layout = comm.layout();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (int replica = layout.first(comm.rank()); replica < layout.first(comm.rank() + 1); ++replica) {
        const Bytes values = leaf(tensors[i], i, replica);
        void* const data = take(values.size());
        if (!values.empty()) std::memcpy(data, values.data(), values.size());
        views_[i].push_back({data, tensors[i].dtype, Shape{tensors[i].count}, Device{}});
        inputs_[i].emplace_back(views_[i].back());
      }
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (const auto& [data, bytes] : blocks_) resource_->deallocate(data, bytes);
  }

  void reduce_in_place() { outputs_ = views_; }
  void add_output(std::size_t i, DType dtype, std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    outputs_[i].push_back({take(bytes), dtype, Shape{count}, Device{}});
    std::memset(outputs_[i].back().data, 0xa5, bytes);
  }
  [[nodiscard]] std::vector<Item> items() const {
    std::vector<Item> items;
    for (std::size_t i = 0; i < views_.size(); ++i) items.push_back({inputs_[i], outputs_[i]});
    return items;
  }
  [[nodiscard]] std::span<const std::byte> output(std::size_t i, std::size_t k) const {
    return {static_cast<const std::byte*>(outputs_[i][k].data), outputs_[i][k].byte_count()};
  }
  [[nodiscard]] std::size_t outputs(std::size_t i) const { return outputs_[i].size(); }

 private:
  void* take(std::size_t bytes) {
    blocks_.emplace_back(resource_->allocate(bytes), bytes);
    return blocks_.back().first;
  }
  std::shared_ptr<MemoryResource> resource_;
  std::vector<std::pair<void*, std::size_t>> blocks_;
  std::vector<std::vector<TensorView>> views_;
  std::vector<std::vector<ConstTensorView>> inputs_;
  std::vector<std::vector<TensorView>> outputs_;
};

class Sweep {
 public:
  /// Runs every collective on one communicator; `how` describes it.
  void run(Communicator& comm, bool reduces_to_parts, const std::string& how) {
    for (const bool in_arena : {false, true}) {
      resource_ = in_arena ? arena_memory_resource() : heap_memory_resource();
      how_ = how + (in_arena ? ", in the arena" : ", on the heap");
      all_reduce(comm, false);
      all_reduce(comm, true);
      mean(comm, in_arena);
      if (!reduces_to_parts) continue;
      reduce(comm, false);
      reduce(comm, true);
      reduce_scatter(comm);
    }
  }

  /// Whether all paths and ranks have the same results. Rank 0 prints them.
  [[nodiscard]] bool conclude(int rank) const {
    std::vector<std::uint64_t> mine;
    for (const auto& [key, hash] : hashes_.all()) mine.push_back(hash);
    std::vector<std::uint64_t> least(mine);
    std::vector<std::uint64_t> most(mine);
    const auto count = static_cast<int>(mine.size());
    MPI_Allreduce(mine.data(), least.data(), count, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(mine.data(), most.data(), count, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    int differs = hashes_.differs() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) hashes_.print();
    if (rank == 0 && least != most) std::fprintf(stderr, "ranks got different bits\n");
    return differs == 0 && least == most;
  }

 private:
  void all_reduce(Communicator& comm, bool is_long) {
    Buffers buffers(list(is_long), comm, resource_);
    buffers.reduce_in_place();
    comm.all_reduce(buffers.items(), ReduceOp::sum);
    note_all(comm, buffers, list(is_long), is_long ? "all_reduce-long" : "all_reduce-short");
  }
  void mean(Communicator& comm, bool is_long) {
    const auto& tensors = list(is_long);
    Buffers buffers(tensors, comm, resource_);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      buffers.add_output(i, result_dtype(ReduceOp::mean, tensors[i].dtype), tensors[i].count);
    comm.all_reduce(buffers.items(), ReduceOp::mean);
    note_all(comm, buffers, tensors, is_long ? "all_reduce_mean-long" : "all_reduce_mean-short");
  }
  void reduce(Communicator& comm, bool is_long) {
    const auto& tensors = list(is_long);
    const int root = comm.layout().replicas() % comm.size();
    Buffers buffers(tensors, comm, resource_);
    for (std::size_t i = 0; i < tensors.size() && comm.rank() == root; ++i)
      buffers.add_output(i, tensors[i].dtype, tensors[i].count);
    comm.reduce(buffers.items(), ReduceOp::sum, root);
    std::vector<std::uint64_t> sums(tensors.size(), 0);
    for (std::size_t i = 0; i < tensors.size() && comm.rank() == root; ++i) sums[i] = hash_of(buffers.output(i, 0));
    note_sums(comm, sums, tensors, is_long ? "reduce-long" : "reduce-short");
  }
  void reduce_scatter(Communicator& comm) {
    const int replicas = comm.layout().replicas();
    const auto tensors = dealt(replicas);
    Buffers buffers(tensors, comm, resource_);
    std::vector<std::uint64_t> sums(tensors.size(), 0);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (int r = 0; r < comm.local_replicas(); ++r)
        buffers.add_output(i, tensors[i].dtype, tensors[i].count / replicas);
    }
    comm.reduce_scatter(buffers.items(), ReduceOp::sum);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t r = 0; r < buffers.outputs(i); ++r)
        sums[i] += hash_of_part(buffers.output(i, r), comm.layout().first(comm.rank()) + static_cast<int>(r));
    }
    note_sums(comm, sums, tensors, "reduce_scatter");
  }

  void note_all(const Communicator& comm, const Buffers& buffers, const std::vector<TensorCase>& tensors,
                std::string_view collective) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t k = 0; k < buffers.outputs(i); ++k)
        hashes_.note(key_of(comm.layout().replicas(), collective, tensors[i].dtype), hash_of(buffers.output(i, k)),
                     how_);
    }
  }
  void note_sums(const Communicator& comm, std::vector<std::uint64_t>& sums, const std::vector<TensorCase>& tensors,
                 std::string_view collective) {
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      hashes_.note(key_of(comm.layout().replicas(), collective, tensors[i].dtype), sums[i], how_);
  }

  std::shared_ptr<MemoryResource> resource_;
  std::string how_;
  Hashes hashes_;
};

/// Layouts of `replicas` on `ranks`: an even one, and one in which a single rank has all replicas beyond one per rank.
std::vector<std::vector<int>> splits(int replicas, int ranks) {
  std::vector<int> even;
  for (int rank = 0; rank < ranks; ++rank) even.push_back(replicas * (rank + 1) / ranks - replicas * rank / ranks);
  std::vector<int> uneven(static_cast<std::size_t>(ranks), 1);
  uneven[static_cast<std::size_t>(replicas % ranks)] += replicas - ranks;
  if (even == uneven) return {even};
  return {even, uneven};
}

void sweep(Sweep& sweep, int ranks, int rank) {
  std::size_t number = 0;
  for (int replicas = ranks; replicas <= most_replicas; ++replicas) {
    for (const auto& counts : splits(replicas, ranks)) {
      ++number;
      for (std::size_t i = 0; i < paths.size(); ++i) {
        const Path& path = paths[i];
        const bool is_planned = path.radices[0] == '\0';
        if (ranks == 1 && !is_planned) continue;
        // to save time, each forced schedule runs with every third layout only
        if (!is_planned && (i + number) % 3 != 0) continue;
        // nodes with a rank that cannot stage its buffers exchange messages
        const bool cannot_stage = rank == 1 && number % 2 == 0;
        const detail::TestHooks hooks{.most_staged_bytes = cannot_stage ? std::size_t{1000} : std::size_t{1} << 28};
        CommunicatorOptions options;
        options.local_replicas = counts[static_cast<std::size_t>(rank)];
        Communicator comm =
            CommunicatorAccess::make(detail::make_mpi_transport(MPI_COMM_WORLD, path.share_memory, path.piece_bytes),
                                     options, ReplicaLayout(counts), {path.radices, path.chunks});
        CommunicatorAccess::set_test_hooks(comm, &hooks);
        const std::string how = std::string("by radices \"") + path.radices + "\" in " + std::to_string(path.chunks) +
                                (path.share_memory ? ", nodes share memory" : ", messages only");
        sweep.run(comm, is_planned, how);
      }
    }
  }
}

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "oracle") {
    by_definition().print();
    return 0;
  }
  const Environment environment(argc, argv);
  Sweep all;
  sweep(all, environment.size(), environment.rank());
  return all.conclude(environment.rank()) ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) { return lockstep::test::run(argc, argv); }
