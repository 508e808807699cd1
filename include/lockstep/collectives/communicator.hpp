// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives over the ranks of a job, or over threads of one process, on tensors in host memory or on GPUs. Reductions
// follow the canonical tree over replica ids, so their bits do not depend on how replicas are spread over ranks; on
// GPUs an all_reduce does so where Order::canonical is asked for.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/collectives/plan.hpp>
#include <lockstep/collectives/request.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct CommunicatorOptions {
  /// Replicas of this rank, at least 1. Ranks may give different numbers.
  int local_replicas = 1;
  /// After this wait the missing ranks are printed, once per operation. Default: LOCKSTEP_TIMEOUT, else 30 s.
  std::optional<std::chrono::milliseconds> warn_after;
  /// After this wait the operation fails on every rank. Default: LOCKSTEP_TIMEOUT, else 300 s. Also how long copies to
  /// and from GPUs wait outside of collectives: the longest of all communicators that this process has.
  std::optional<std::chrono::milliseconds> fail_after;
  /// Order of reductions that do not ask for one. Default: canonical in host memory, NCCL's own (any) on GPUs.
  /// LOCKSTEP_ORDER=canonical tightens every call; nothing relaxes one.
  std::optional<Order> order;
  /// Shown in errors.
  std::string name = "communicator";
};

struct ReduceOptions {
  /// Default: the communicator's.
  std::optional<Order> order;
  /// Shown in errors, and compared between ranks when not empty.
  std::string_view name = {};
  /// Deadline of this call alone; the first rank whose deadline passes ends it on every rank. Default, and where it is
  /// not positive: the communicator's. Not for send and recv.
  std::optional<std::chrono::milliseconds> fail_after = {};
};

/// A group of ranks. Each rank owns one or more replicas, with contiguous global ids.
///
/// Every method that says Collective must be called by all ranks in the same order with items of the same kind, dtype
/// and shape; what differs is found before any data is used, and thrown as Error(mismatch) by every rank with one text.
/// A rank that does not come within the deadline makes Error(deadline_exceeded) on every rank, naming it, and where it
/// waits instead, if that is in a communicator that was made of this one or this of it. After such an error the
/// communicator works again, unless a message was lost on the way: then every later call throws
/// Error(unavailable) that names the first culprit. All can throw Error(invalid_argument) for what this rank alone can
/// see; the other ranks then get Error(unavailable) with the text.
///
/// On GPUs: the tensors of a call lie on GPUs or none does, those of one replica on one device, the same in every call;
/// other places are Error(invalid_argument), and so are elements that the GPU of their view cannot reach: memory of the
/// host that is not page-locked, or of another GPU. A GPU that is not here is Error(unavailable). Ranks that disagree
/// get the mismatch. At the first call on GPUs (but a broadcast) the ranks settle how they do it: in one kernel where
/// all replicas are on one GPU; by NCCL among one replica of each GPU, the others of a GPU being reduced there first;
/// through host memory where their ranks do not have NCCL in one version. Of ranks that share a GPU the lowest is in
/// it, and the others' tensors go to it and back through host memory. Rank 0 warns of either. That call waits for all
/// ranks, also an asynchronous one. What is read is what is on the streams of its devices when the call is made; the
/// results are there when it is complete. Without NCCL inputs are fetched in the call. After an error it starts anew.
///
/// Shared handle: copies refer to the same group. Thread-safety: any thread; calls of one rank are ordered by the
/// engine. Below MPI_THREAD_SERIALIZED only the main thread may call, others get Error(failed_precondition). Destroying
/// the last handle with operations in flight waits for them, bounded by the deadline.
class LOCKSTEP_API Communicator {
 public:
  /// Local.
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] const ReplicaLayout& layout() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept { return layout().count(rank()); }
  [[nodiscard]] const CommunicatorOptions& options() const noexcept;
  /// The order of an all_reduce of tensors on devices of that kind which asks for none: CommunicatorOptions::order, as
  /// LOCKSTEP_ORDER tightens it. Where it is `any`, the canonical order is one of those allowed.
  [[nodiscard]] Order order(DeviceKind kind = DeviceKind::cpu) const noexcept;
  /// "mpi" or "threads".
  [[nodiscard]] std::string_view transport() const noexcept;
  /// Nodes that the ranks live on (groups that share memory).
  [[nodiscard]] int nodes() const noexcept;

  /// A communicator over the same ranks with messages and a sequence of its own. Collective.
  [[nodiscard]] Communicator duplicate(const CommunicatorOptions& options) const;

  /// Communicators of some of these ranks: those that give the same `color` come together, ordered by `key`, among
  /// equal keys by their rank here; replica ids follow. Nothing comes back for a negative color: this rank is in none.
  /// `options` are the new communicator's, as in duplicate. Collective over this communicator, also for ranks that want
  /// none. Cost: an all_gather of 8 bytes per replica, and what the transport needs.
  [[nodiscard]] std::optional<Communicator> split(int color, int key, const CommunicatorOptions& options) const;

  /// Replaces every output by the reduction of all replicas' inputs. Collective.
  /// All inputs of an item have one dtype and shape, on all ranks; outputs (any number, also none) have that shape and
  /// result_dtype(op, dtype). An output may be the very view of an input, but not overlap one partly.
  /// Cost on one node: every rank reads the inputs of its slice and writes all outputs of it, in place where the
  /// buffers lie in the arena (lockstep::Tensor, ArenaAllocator), else through staging memory; two crossings of a cache
  /// line, one up to 2 KiB (movement-avoiding reduction; Peng et al., SC 2023). Between nodes (direct exchange; Thakur,
  /// Rabenseifner, Gropp 2005): 2 (P-1) messages per rank, 2 (P-1)/P times the bytes of the partial sums that a rank
  /// ships; P-1 messages of everything up to 2 KiB.
  void all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {});
  [[nodiscard]] Request all_reduce_async(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {});

  /// The same, prepared: checks, schedule and addresses are settled once. Local; the runs are collective. Throws
  /// Error(invalid_argument) as all_reduce does, and tells the other ranks nothing.
  /// Calls that are not prepared find what they need by their arguments from the second time on; that costs a hash of
  /// all views per call.
  [[nodiscard]] Plan prepare_all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {});

  /// As all_reduce, with outputs on rank `root` only. Collective.
  void reduce(std::span<const Item> items, ReduceOp op, int root, const ReduceOptions& options = {});
  [[nodiscard]] Request reduce_async(std::span<const Item> items, ReduceOp op, int root,
                                     const ReduceOptions& options = {});

  /// Inputs have R*n elements (R replicas in all, first axis divisible by R), outputs, one per local replica, n:
  /// replica r gets part r of the reduction. Collective.
  /// Cost on one node: every rank reads its replicas' parts of all inputs and writes its outputs; where inputs may lie,
  /// and crossings, as for all_reduce.
  void reduce_scatter(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {});
  [[nodiscard]] Request reduce_scatter_async(std::span<const Item> items, ReduceOp op,
                                             const ReduceOptions& options = {});

  /// Outputs (any number) get the inputs of all replicas one after the other, in id order: R*n elements. Collective.
  /// Cost on one node: every rank reads all inputs and writes its outputs, in place where the inputs lie in the arena
  /// (outputs may lie anywhere), else through staging memory; two crossings, one up to 2 KiB.
  void all_gather(std::span<const Item> items, const ReduceOptions& options = {});
  [[nodiscard]] Request all_gather_async(std::span<const Item> items, const ReduceOptions& options = {});

  /// As all_gather, with outputs on rank `root` only. Collective. The others wait until the root has read, but for what
  /// is small.
  void gather(std::span<const Item> items, int root, const ReduceOptions& options = {});
  [[nodiscard]] Request gather_async(std::span<const Item> items, int root, const ReduceOptions& options = {});

  /// As all_gather, where replicas' inputs may differ in their first extent: that of replica r is `rows[r]`; the other
  /// extents and the dtype are the same everywhere. Outputs (any number) have sum(rows) rows. Collective.
  /// `rows` has one entry per replica (R), which hold for all items, or R for each item, one item after the other. It
  /// is copied, equal on all ranks, and compared with the rest: ranks that differ get Error(mismatch). So no rank has
  /// to be asked for its number; where nobody knows it, all_gather the numbers first. Cost (direct exchange): a rank
  /// sends its rows to P-1 others; one step.
  void all_gather_v(std::span<const Item> items, std::span<const std::int64_t> rows, const ReduceOptions& options = {});
  [[nodiscard]] Request all_gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows,
                                           const ReduceOptions& options = {});

  /// As all_gather_v, with outputs on rank `root` only. Collective. Cost: each other rank sends its rows, one message.
  void gather_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                const ReduceOptions& options = {});
  [[nodiscard]] Request gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                       const ReduceOptions& options = {});

  /// Rank `root` gives one input of R*n elements (R replicas in all); every rank has outputs, one per local replica, of
  /// n elements and one shape: replica r gets part r. No two outputs may be the same view, and none may overlap the
  /// input. Collective.
  /// Cost: the root sends each other rank its parts, P-1 messages; one step.
  void scatter(std::span<const Item> items, int root, const ReduceOptions& options = {});
  [[nodiscard]] Request scatter_async(std::span<const Item> items, int root, const ReduceOptions& options = {});

  /// As scatter, where parts may differ in their first extent: replica r gets `rows[r]` rows; the input has sum(rows)
  /// of them. `rows` as in all_gather_v. Collective.
  void scatter_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                 const ReduceOptions& options = {});
  [[nodiscard]] Request scatter_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                        const ReduceOptions& options = {});

  /// Part s of replica r's input becomes part r of replica s's output. Inputs have R parts of one length (first axis
  /// divisible by R), one shape on all ranks; outputs, one per local replica, as many elements. An output may be the
  /// very view of an input, of its replica or another; no two outputs the same. Collective.
  /// Cost (all messages posted at once; Thakur, Rabenseifner, Gropp 2005): P-1 messages and (P-1)/P times the bytes of
  /// its inputs per rank; one step.
  void all_to_all(std::span<const Item> items, const ReduceOptions& options = {});
  [[nodiscard]] Request all_to_all_async(std::span<const Item> items, const ReduceOptions& options = {});

  /// As all_to_all, where parts may differ in their first extent: local replica i sends `send_rows[i*R + s]` rows to
  /// replica s, and gets `receive_rows[i*R + r]` rows from replica r, one part after the other. With one replica per
  /// rank these are the counts of MPI_Alltoallv, in rows. They hold for all items, or there are as many again for each
  /// item. Extents but the first, and the dtype, are the same everywhere. Collective.
  /// Senders and receivers are compared before a row moves: where they differ every rank gets Error(mismatch) that
  /// names the first pair of replicas and both numbers, and the communicator works on. Cost: as all_to_all, after P-1
  /// messages of 8 bytes per pair of replicas and item, and ceil(log2 P) small ones (dissemination; Hensgen, Finkel,
  /// Manber 1988).
  void all_to_all_v(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, const ReduceOptions& options = {});
  [[nodiscard]] Request all_to_all_v_async(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                           std::span<const std::int64_t> receive_rows,
                                           const ReduceOptions& options = {});

  /// Outputs on every rank (at least one off the root; it says dtype and shape there) get the one input of rank `root`.
  /// Collective.
  /// Cost on one node: every other rank reads the input and writes its outputs, as in all_gather; the root waits until
  /// they have, but for what is small.
  void broadcast(std::span<const Item> items, int root, const ReduceOptions& options = {});
  [[nodiscard]] Request broadcast_async(std::span<const Item> items, int root, const ReduceOptions& options = {});

  /// Returns when every rank has called it. Collective.
  void barrier(const ReduceOptions& options = {});
  [[nodiscard]] Request barrier_async(const ReduceOptions& options = {});

  /// Sends tensors to rank `target`, which receives them by the k-th recv from this rank if this is the k-th send to
  /// it: each pair of ranks and direction has a sequence of its own, beside the order of the collectives. The lists
  /// must agree in number, dtypes and shapes; where they do not both ranks get Error(mismatch) with one text, nothing
  /// is moved, and the next message is the next one's. Both ranks must call; a rank of which the other gets nothing
  /// within the deadline makes Error(deadline_exceeded) on both. What this rank alone can see to be wrong is
  /// Error(invalid_argument) here, Error(unavailable) there. `abort` does not end messages under way.
  /// Complete when the receiver has agreed and the tensors have been copied or have left. Requests complete in any
  /// order. Cost: an offer, an answer and the data: 3 messages, of which 2 are small. Either end's tensors may lie on
  /// GPUs; they go through page-locked host memory, also where there is NCCL: what two ranks tell each other is beside
  /// the order of the collectives, and NCCL's calls have one order.
  void send(std::span<const ConstTensorView> tensors, int target, const ReduceOptions& options = {});
  [[nodiscard]] Request send_async(std::span<const ConstTensorView> tensors, int target,
                                   const ReduceOptions& options = {});
  /// The other end of a send. No two tensors may overlap.
  void recv(std::span<const TensorView> tensors, int source, const ReduceOptions& options = {});
  [[nodiscard]] Request recv_async(std::span<const TensorView> tensors, int source, const ReduceOptions& options = {});

  /// One tensor in place, for a rank with one replica: `all_reduce(std::span(gradient), ReduceOp::mean)`. Collective.
  /// Throws Error(invalid_argument) when this rank has several replicas, and for the mean of integers, which is f64.
  template <Element T, std::size_t extent>
    requires(!std::is_const_v<T>)
  void all_reduce(std::span<T, extent> values, ReduceOp op, const ReduceOptions& options = {}) {
    all_reduce_in_place(view_of(std::span<T>(values)), op, options);
  }

  /// Aborts the current epoch on all ranks: each other rank gets Error(unavailable) with `text` from its present or
  /// next operation, and so do the operations of this rank that are under way. The communicator works again afterwards.
  /// Local: returns at once. Thread-safe.
  void abort(std::string_view text);

 private:
  friend struct CommunicatorAccess;  // the library's own factories
  struct State;
  explicit Communicator(std::shared_ptr<State> state) noexcept;
  void all_reduce_in_place(TensorView values, ReduceOp op, const ReduceOptions& options);

  std::shared_ptr<State> state_;
};

/// A communicator over all ranks of the job (MPI_COMM_WORLD, duplicated). Collective.
/// Throws Error(failed_precondition) when MPI is not initialised; a lockstep::Environment does that.
[[nodiscard]] LOCKSTEP_API Communicator world_communicator(const CommunicatorOptions& options = {});

/// A communicator of one rank, for programs without MPI. Local.
[[nodiscard]] LOCKSTEP_API Communicator self_communicator(const CommunicatorOptions& options = {});

/// `options.size()` ranks that are threads of this process: rank p is meant for one thread of the caller's, and all
/// ranks' calls meet in memory. Local. `options[p].local_replicas` is rank p's number of replicas.
[[nodiscard]] LOCKSTEP_API std::vector<Communicator> thread_communicators(std::span<const CommunicatorOptions> options);

}  // namespace lockstep
