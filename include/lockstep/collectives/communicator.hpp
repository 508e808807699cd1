// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives over the ranks of a job, or over threads of one process, on tensors in host memory or on GPUs. Reductions
// follow the canonical tree over replica ids, so their bits do not depend on how replicas are spread over ranks; on
// GPUs an all_reduce does so if Order::canonical is requested.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/elements.hpp>
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
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep {

struct CommunicatorOptions {
  /// Number of replicas of this rank, at least 1. Ranks may have different numbers.
  int local_replicas = 1;
  /// Waiting time after which the missing ranks are logged, once per operation. Default: LOCKSTEP_TIMEOUT, else 30 s.
  std::optional<std::chrono::milliseconds> warn_after;
  /// Time without progress after which the operation fails on every rank: the time starts again whenever data moves
  /// between ranks. If this rank polls seldom, the part of each pause between two polls that exceeds both 1 s and
  /// fail_after / 20 does not count. Default: LOCKSTEP_TIMEOUT, else 300 s. The longest fail_after of all communicators
  /// of this process also bounds copies to and from GPUs outside of collectives.
  std::optional<std::chrono::milliseconds> fail_after;
  /// Time after which an operation fails on every rank even if its data moves; at least fail_after. Default:
  /// LOCKSTEP_TIMEOUT, else unlimited.
  std::optional<std::chrono::milliseconds> fail_after_total;
  /// Order of reductions that do not request one. Default: canonical in host memory, NCCL's own (any) on GPUs.
  /// LOCKSTEP_ORDER=canonical makes every call canonical; no setting makes a canonical call less strict.
  std::optional<Order> order;
  /// Shown in errors.
  std::string name = "communicator";
};

struct ReduceOptions {
  /// Default: the communicator's.
  std::optional<Order> order;
  /// Shown in errors, and compared between ranks if it is not empty.
  std::string_view name = {};
  /// fail_after of this call alone. When the timeout of one rank expires, the call fails on every rank. Default: the
  /// communicator's fail_after, also if the value is not positive. Not used by send and recv.
  std::optional<std::chrono::milliseconds> fail_after = {};
  /// Line shown in errors as the place of this rank's call. It is not compared between ranks. Default: the line in
  /// which the options are constructed or, for a call without options, the line of the call.
  std::source_location where = std::source_location::current();
};

/// A group of ranks. Each rank owns one or more replicas, with contiguous global ids.
///
/// Every method that says Collective must be called by all ranks in the same order, with items of the same kind, dtype
/// and shape. A difference is found before any data is used, and every rank throws Error(mismatch) with one text. If a
/// rank does not call within the timeout, every rank throws Error(deadline_exceeded), which names the missing rank. If
/// the missing rank waits in an operation of another communicator, and one of the two communicators was made from the
/// other, the error names that operation, too.
/// A rank departs when it ends or destroys its communicator. Calls that need a departed rank throw Error(unavailable),
/// which names that rank, on every rank: on ranks of the departed rank's node within a second, on ranks of other nodes
/// as soon as another rank of the departed rank's node is in a call, too. If the departed rank was the only rank of its
/// node, the others throw at once if it has destroyed its communicator, but only after the timeout if its process has
/// ended. Exception: if a rank has destroyed its communicator, a send or receive in which a rank of another node waits
/// for it fails only after the timeout, unless the departed rank is one that sends a message to the waiting rank in
/// every collective.
/// After an error the communicator works again, unless a rank has ended or still uses another rank's memory: then every
/// later call throws Error(unavailable) at once, which names the first failed rank. If some ranks had completed an
/// operation that failed on others, every later call throws Error(mismatch) until all ranks call `recover`. After an
/// error, those reductions in host memory that permit any order use the canonical order. A debugger that is attached to
/// a rank suspends the timeouts of the ranks of its node. If a rank of this node waits in the same operation as ranks
/// of other nodes, the timeouts of those other ranks are suspended, too. Every method can throw Error(invalid_argument)
/// for errors that this rank alone can see; the other ranks then throw Error(unavailable) with the text of that error.
///
/// GPUs: all tensors of a call are on GPUs, or none; those of one replica are on one device, the same in every call. A
/// call whose tensors are placed differently throws Error(invalid_argument), and so does a call with elements that the
/// GPU of their view cannot reach: host memory that is not pinned, or memory of another GPU. A call with a GPU that
/// does not exist throws Error(unavailable). Ranks that disagree throw Error(mismatch). At the first call on GPUs,
/// broadcast excepted, the ranks negotiate the path: one kernel if all replicas are on one GPU; NCCL between one
/// replica of each GPU, after a reduction of the replicas on each GPU; host memory if the ranks do not have one version
/// of NCCL. If several ranks share a GPU, only the lowest of them joins NCCL; the tensors of the others go through host
/// memory. Rank 0 logs a warning if data goes through host memory. That first call waits for all ranks even if it is
/// asynchronous. A call reads its inputs after the work that was submitted to the streams of their devices before the
/// call; the results are written when the call is complete. Without NCCL the inputs are copied to the host during the
/// call. After an error the path is negotiated again.
///
/// Cost between N nodes, or N ranks that share no memory: each collective begins with an exchange in which the ranks
/// compare the call. Between nodes it takes about log4 N rounds, in each of which the lowest rank of a node sends 40
/// bytes to three others, as a rule (recursive multiplying; Ruefenacht, Bull, Booth 2017); inside a node it takes two
/// cache line transfers. The data of a small call travels in the messages of this exchange, and no others are sent. A
/// call is small if no rank sends more than 64 KiB of the call's data in all rounds and, where nodes have several
/// ranks, no more than 16 KiB in one message. In these messages a reduction sends its partial sums, a broadcast and a
/// scatter send the input of the root, and the other collectives send all inputs that the sender has so far: its own,
/// and those that it has received. The costs stated at each function are those of calls that are not small.
///
/// Shared handle: copies refer to the same group, and a const handle does not make the group const, as with a
/// shared_ptr. Thread-safety: any thread; calls of one rank are ordered by the engine. Below MPI_THREAD_SERIALIZED only
/// the main thread may call; other threads get Error(failed_precondition). Destroying the last handle while operations
/// are pending waits for them, at most until the timeout. Then this rank has departed: the other ranks can only destroy
/// their handles. MPI_Finalize does the same to a communicator that still exists.
class LOCKSTEP_API Communicator {
 public:
  /// Local.
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] const ReplicaLayout& layout() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept { return layout().count(rank()); }
  [[nodiscard]] const CommunicatorOptions& options() const noexcept;
  /// The order of an all_reduce that requests none, on tensors on devices of that kind: CommunicatorOptions::order, as
  /// tightened by LOCKSTEP_ORDER. `any` allows the canonical order, too.
  [[nodiscard]] Order order(DeviceKind kind = DeviceKind::cpu) const noexcept;
  /// "mpi" or "threads".
  [[nodiscard]] std::string_view transport() const noexcept;
  /// Number of nodes of the ranks (groups that share memory).
  [[nodiscard]] int nodes() const noexcept;

  /// A communicator over the same ranks with messages and a sequence of its own. It is made by operations of this
  /// communicator, with the timeout and the errors of such operations; after an error this communicator works again, as
  /// after any other error. On the new communicator, Order::any means the canonical order for tensors in host memory.
  /// Collective. Cost: two all_gathers of 120 bytes per replica at most.
  [[nodiscard]] Communicator duplicate(const CommunicatorOptions& options,
                                       std::source_location where = std::source_location::current()) const;

  /// Communicators of disjoint groups of these ranks: ranks that pass the same `color` form a group, ordered by `key`
  /// and, for equal keys, by their rank here; replica ids follow. A rank that passes a negative color gets none.
  /// `options` are those of the new communicator, as in duplicate. Collective over this communicator, also for ranks
  /// with a negative color. Timeout, errors and cost: as duplicate.
  [[nodiscard]] std::optional<Communicator> split(int color, int key, const CommunicatorOptions& options,
                                                  std::source_location where = std::source_location::current()) const;

  /// Replaces every output by the reduction of all replicas' inputs. Collective.
  /// All inputs of an item have one dtype and shape, on all ranks; outputs (any number, also none) have that shape and
  /// result_dtype(op, dtype). An output may be the same view as an input, but must not overlap one partly.
  /// Cost on one node: every rank reads the inputs of its slice and writes all outputs of that slice, in place if the
  /// buffers are in the arena (lockstep::Tensor, ArenaAllocator), else through staging memory. The ranks synchronize by
  /// two cache line transfers between cores, one after the other; for at most 2 KiB per rank, one transfer is enough
  /// (movement-avoiding reduction; Peng et al., SC 2023). Between nodes, in stages of radices k that the planner
  /// chooses (Thakur, Rabenseifner, Gropp 2005; Ruefenacht, Bull, Booth 2017): a rank sends k-1 messages in a stage, or
  /// twice as many if the stage splits the data. If all stages split, it sends 2 (P-1)/P times the bytes of its partial
  /// sums in all (P ranks).
  void all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_reduce_async(std::span<const Item> items, ReduceOp op,
                                         const ReduceOptions& options = {}) const;

  /// The same, prepared: arguments, schedule and addresses are checked and computed once. Local; the runs are
  /// collective. Throws Error(invalid_argument) as all_reduce does, but does not abort the other ranks.
  /// A repeated call that is not prepared also reuses these results, but computes a hash of all views each time to find
  /// them.
  [[nodiscard]] Plan prepare_all_reduce(std::span<const Item> items, ReduceOp op,
                                        const ReduceOptions& options = {}) const;

  /// As all_reduce, with outputs on rank `root` only. Collective. Cost between nodes: as all_reduce, but results go to
  /// the root and the ranks that pass them on.
  void reduce(std::span<const Item> items, ReduceOp op, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_async(std::span<const Item> items, ReduceOp op, int root,
                                     const ReduceOptions& options = {}) const;

  /// Each input has R*n elements (R replicas in all, first axis divisible by R). There is one output of n elements for
  /// each local replica: replica r gets part r of the reduction. Collective.
  /// Cost on one node: every rank reads the parts of its replicas in all inputs and writes its outputs; memory and
  /// synchronization as for all_reduce. Between nodes of equal numbers of ranks and replicas: first a reduction in the
  /// memory of each node; then each of the P ranks sends every other node one message with 1/P of the bytes, or small
  /// parts are exchanged in log N steps (recursive halving). If the nodes differ in these numbers, each rank sends P-1
  /// messages.
  void reduce_scatter(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_scatter_async(std::span<const Item> items, ReduceOp op,
                                             const ReduceOptions& options = {}) const;

  /// Outputs (any number) get the inputs of all replicas one after the other, in id order: R*n elements. Collective.
  /// Cost on one node: every rank reads all inputs and writes its outputs, in place if the inputs are in the arena
  /// (outputs may be anywhere), else through staging memory; synchronization as for all_reduce. Between nodes as
  /// reduce_scatter, in reverse: each part is sent once to each node.
  void all_gather(std::span<const Item> items, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_gather_async(std::span<const Item> items, const ReduceOptions& options = {}) const;

  /// As all_gather, with outputs on rank `root` only. Collective. The other ranks wait until the root has read, unless
  /// the tensors are small.
  void gather(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request gather_async(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;

  /// As all_gather, but the first extents of the inputs may differ: that of replica r is `rows[r]`; the other extents
  /// and the dtype are the same everywhere. Outputs (any number) have sum(rows) rows. Collective.
  /// `rows` has one entry per replica (R), valid for all items, or R for each item, one item after the other. It is
  /// copied. It must be equal on all ranks, and is compared like the other arguments: ranks that differ get
  /// Error(mismatch). If no rank knows the numbers of the others, all_gather them first. Cost (direct exchange): a rank
  /// sends its rows to P-1 others; one step.
  void all_gather_v(std::span<const Item> items, std::span<const std::int64_t> rows,
                    const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows,
                                           const ReduceOptions& options = {}) const;

  /// As all_gather_v, with outputs on rank `root` only. Collective. Cost: each other rank sends its rows, one message.
  void gather_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                const ReduceOptions& options = {}) const;
  [[nodiscard]] Request gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                       const ReduceOptions& options = {}) const;

  /// Rank `root` has one input of R*n elements (R replicas in all); every rank has outputs, one per local replica, of
  /// n elements and one shape: replica r gets part r. No two outputs may be the same view, and none may overlap the
  /// input. Collective.
  /// Cost: the root sends each other rank its parts, P-1 messages; one step.
  void scatter(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request scatter_async(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;

  /// As scatter, but the first extents of the parts may differ: replica r gets `rows[r]` rows; the input has sum(rows)
  /// rows. `rows` as in all_gather_v. Collective.
  void scatter_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                 const ReduceOptions& options = {}) const;
  [[nodiscard]] Request scatter_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                        const ReduceOptions& options = {}) const;

  /// Part s of replica r's input becomes part r of replica s's output. Inputs have R parts of one length (first axis
  /// divisible by R) and one shape on all ranks. There is one output for each local replica, with as many elements as
  /// an input. An output may be the same view as an input of any local replica; no two outputs may be the same.
  /// Collective.
  /// Cost (all messages posted at once; Thakur, Rabenseifner, Gropp 2005): P-1 messages and (P-1)/P times the bytes of
  /// its inputs per rank; one step.
  void all_to_all(std::span<const Item> items, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_to_all_async(std::span<const Item> items, const ReduceOptions& options = {}) const;

  /// As all_to_all, but the first extents of the parts may differ: local replica i sends `send_rows[i*R + s]` rows to
  /// replica s, and gets `receive_rows[i*R + r]` rows from replica r, one part after the other. With one replica per
  /// rank these are the counts of MPI_Alltoallv, in rows. Either one list serves all items, or each item has its own,
  /// one list after the other. All other extents, and the dtype, are the same everywhere. Collective.
  /// Senders and receivers are compared before a row moves: if they differ, every rank gets Error(mismatch) that names
  /// the first pair of replicas and both numbers, and the communicator still works. Cost: as all_to_all, after P-1
  /// messages of 8 bytes per pair of replicas and item, and ceil(log2 P) small ones (dissemination; Hensgen, Finkel,
  /// Manber 1988).
  void all_to_all_v(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_to_all_v_async(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                           std::span<const std::int64_t> receive_rows,
                                           const ReduceOptions& options = {}) const;

  /// Copies the one input of rank `root` to all outputs of every rank. Each rank but the root has at least one output,
  /// which determines dtype and shape on that rank. Collective.
  /// Cost on one node: every other rank reads the input and writes its outputs, as in all_gather; the root waits until
  /// they have, unless the tensors are small.
  void broadcast(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request broadcast_async(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;

  /// Returns when every rank has called it. Collective.
  void barrier(const ReduceOptions& options = {}) const;
  [[nodiscard]] Request barrier_async(const ReduceOptions& options = {}) const;

  /// Sends tensors to rank `target`. The k-th send from this rank to `target` matches the k-th recv there from this
  /// rank: each pair of ranks and direction has a sequence of its own, independent of the order of the collectives. The
  /// lists must agree in number, dtypes and shapes; if they do not, both ranks get Error(mismatch) with one text, no
  /// data moves, and the message is consumed. Both ranks must call; if one of them does not within the timeout, both
  /// get Error(deadline_exceeded). Errors that this rank alone can see are Error(invalid_argument) on this rank and
  /// Error(unavailable) on the other. `abort` does not end pending messages.
  /// Complete when the receiver has agreed and the tensors have been copied or sent. Requests complete in any order.
  /// Cost: an offer, an answer and the data: 3 messages, of which 2 are small. The tensors of both ranks may be on
  /// GPUs; they go through pinned host memory even if NCCL is available, because all ranks must make their NCCL calls
  /// in one order, and a message has no place in the order of the collectives.
  void send(std::span<const ConstTensorView> tensors, int target, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request send_async(std::span<const ConstTensorView> tensors, int target,
                                   const ReduceOptions& options = {}) const;
  /// The other end of a send. No two tensors may overlap.
  void recv(std::span<const TensorView> tensors, int source, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request recv_async(std::span<const TensorView> tensors, int source,
                                   const ReduceOptions& options = {}) const;

  // The calls above on one tensor of this rank. The rank must have one replica, else the call throws
  // Error(invalid_argument); for broadcast, send and recv it may have any number of replicas. A tensor is a named
  // container (std::vector, std::array, ...), a std::span, one element, or a view; ranges are 1-dimensional. Arguments
  // that only the root uses are ignored on the other ranks, and may be empty there. Elements must live until the call,
  // or its request, is complete. Collective where the call above is. Cost: that of a call with one item.

  /// In place. The mean of integers is f64, so it needs the form with an output.
  void all_reduce(Elements values, ReduceOp op, const ReduceOptions& options = {}) const;
  void all_reduce(ConstElements input, Elements output, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_reduce_async(Elements values, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_reduce_async(ConstElements input, Elements output, ReduceOp op,
                                         const ReduceOptions& options = {}) const;
  [[nodiscard]] Plan prepare_all_reduce(Elements values, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Plan prepare_all_reduce(ConstElements input, Elements output, ReduceOp op,
                                        const ReduceOptions& options = {}) const;
  /// The reduction of one number per rank.
  template <Element T>
  [[nodiscard]] T all_reduce(T value, ReduceOp op, const ReduceOptions& options = {}) const {
    all_reduce(Elements(value), op, options);
    return value;
  }

  /// In place on the root; the other ranks keep their values.
  void reduce(Elements values, ReduceOp op, int root, const ReduceOptions& options = {}) const;
  void reduce(ConstElements input, Elements output, ReduceOp op, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_async(Elements values, ReduceOp op, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_async(ConstElements input, Elements output, ReduceOp op, int root,
                                     const ReduceOptions& options = {}) const;
  void reduce_scatter(ConstElements input, Elements output, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_scatter_async(ConstElements input, Elements output, ReduceOp op,
                                             const ReduceOptions& options = {}) const;

  void all_gather(ConstElements input, Elements output, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_gather_async(ConstElements input, Elements output, const ReduceOptions& options = {}) const;
  /// One number of every rank, by rank.
  template <Element T>
    requires(!std::is_same_v<T, bool>)
  [[nodiscard]] std::vector<T> all_gather(T value, const ReduceOptions& options = {}) const {
    std::vector<T> all(static_cast<std::size_t>(size()));
    all_gather(value, all, options);
    return all;
  }
  void gather(ConstElements input, Elements output, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request gather_async(ConstElements input, Elements output, int root,
                                     const ReduceOptions& options = {}) const;
  void all_gather_v(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                    const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_gather_v_async(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                                           const ReduceOptions& options = {}) const;
  void gather_v(ConstElements input, Elements output, std::span<const std::int64_t> rows, int root,
                const ReduceOptions& options = {}) const;
  [[nodiscard]] Request gather_v_async(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                                       int root, const ReduceOptions& options = {}) const;

  void scatter(ConstElements input, Elements output, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request scatter_async(ConstElements input, Elements output, int root,
                                      const ReduceOptions& options = {}) const;
  void scatter_v(ConstElements input, Elements output, std::span<const std::int64_t> rows, int root,
                 const ReduceOptions& options = {}) const;
  [[nodiscard]] Request scatter_v_async(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                                        int root, const ReduceOptions& options = {}) const;
  void all_to_all(ConstElements input, Elements output, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_to_all_async(ConstElements input, Elements output, const ReduceOptions& options = {}) const;
  void all_to_all_v(ConstElements input, Elements output, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_to_all_v_async(ConstElements input, Elements output,
                                           std::span<const std::int64_t> send_rows,
                                           std::span<const std::int64_t> receive_rows,
                                           const ReduceOptions& options = {}) const;

  /// Read on the root, written on the other ranks.
  void broadcast(Elements values, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request broadcast_async(Elements values, int root, const ReduceOptions& options = {}) const;
  void send(ConstElements values, int target, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request send_async(ConstElements values, int target, const ReduceOptions& options = {}) const;
  void recv(Elements values, int source, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request recv_async(Elements values, int source, const ReduceOptions& options = {}) const;

  /// Number of operations of this communicator that this rank has completed. All ranks count alike; the library's own
  /// operations count, too, so note the number at the beginning of each step rather than compute it. Local.
  [[nodiscard]] std::int64_t completed_operations() const;

  /// After a failure: returns the number of operations that all ranks have completed, the lowest completed_operations()
  /// of any rank, and sets the number of every rank to it. Some ranks can have completed the operation that failed
  /// elsewhere; as long as the numbers differ, every operation but this one throws Error(mismatch) on all ranks, so
  /// that a retry never combines two different steps. Resume the step whose number was the result; a rank whose own
  /// number was higher by d repeats its last d completed calls, with the original inputs. Collective: called by all
  /// ranks, without outstanding requests. A failure that no call of this rank has thrown yet is not thrown any more.
  /// Throws as all_gather.
  [[nodiscard]] std::int64_t recover(std::source_location where = std::source_location::current()) const;

  /// Aborts the current epoch on all ranks: each other rank gets Error(unavailable) with `text` from its present or
  /// next operation, and so do the operations of this rank that are under way. The error on the other ranks names the
  /// line `where`. The communicator works again afterwards. Local: returns at once. Thread-safe.
  void abort(std::string_view text, std::source_location where = std::source_location::current()) const;

 private:
  friend struct CommunicatorAccess;  // the library's own factories
  struct State;
  explicit Communicator(std::shared_ptr<State> state) noexcept;

  std::shared_ptr<State> state_;
};

/// A communicator over all ranks of the job (MPI_COMM_WORLD, duplicated). Collective, with the timeout of `options`.
/// Throws Error(failed_precondition) if MPI is not initialised (a lockstep::Environment initialises MPI), or on a
/// thread that may not enter MPI; Error(deadline_exceeded), which names the missing ranks and, if it is known, the
/// operation in which each of them waits instead; and Error(unavailable) if an earlier call was interrupted such that a
/// message was lost. With an Environment, each rank gets each such error once, in this call or the next, and may then
/// try again. Thread-safety: any thread, but all ranks must make their calls for MPI_COMM_WORLD in the same order.
[[nodiscard]] LOCKSTEP_API Communicator world_communicator(const CommunicatorOptions& options = {});

/// A communicator of one rank, for programs without MPI. Local.
[[nodiscard]] LOCKSTEP_API Communicator self_communicator(const CommunicatorOptions& options = {});

/// `options.size()` ranks that are threads of this process: communicator p is meant for one thread of the caller, and
/// the ranks exchange data in memory. Local. `options[p].local_replicas` is the number of replicas of rank p.
[[nodiscard]] LOCKSTEP_API std::vector<Communicator> thread_communicators(std::span<const CommunicatorOptions> options);

}  // namespace lockstep
