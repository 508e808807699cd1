// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives over the ranks of a job, or over threads of one process, on tensors in host memory or on GPUs. By
// default, reductions in host memory follow the canonical tree over replica ids, so the bits of a result do not depend
// on the assignment of replicas to ranks. An all_reduce on GPUs follows this tree if Order::canonical is requested.

#pragma once

#include <lockstep/base/chrono.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/elements.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/collectives/plan.hpp>
#include <lockstep/collectives/request.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>

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
  /// Number of replicas of this rank, at least 1. May differ between ranks.
  int local_replicas = 1;
  /// Waiting time after which the missing ranks are logged, once per operation. Default: LOCKSTEP_TIMEOUT, or 30 s if
  /// the variable is not set.
  std::optional<std::chrono::milliseconds> warn_after = {};
  /// Time without progress after which an operation fails on every rank. The time starts again whenever data moves
  /// between ranks. If this rank pauses between two calls that advance the operation, the pause counts for at most 1 s
  /// or fail_after / 20, whichever is longer. Default: LOCKSTEP_TIMEOUT, or 300 s if the variable is not set. Copies to
  /// and from GPUs outside of collectives are bounded by the longest fail_after of all communicators of this process.
  /// Must be equal on all ranks: if it differs, making the communicator throws Error(mismatch) on all ranks.
  std::optional<std::chrono::milliseconds> fail_after = {};
  /// Time after which an operation fails on every rank even if its data moves; at least fail_after. Default:
  /// LOCKSTEP_TIMEOUT; unlimited if the variable does not set this time.
  std::optional<std::chrono::milliseconds> fail_after_total = {};
  /// Order of reductions that do not request an order. Default: canonical in host memory; on GPUs any, which leaves the
  /// order to NCCL. LOCKSTEP_ORDER=canonical makes the order of every call canonical. No setting relaxes the order of a
  /// call that requests the canonical order.
  std::optional<Order> order = {};
  /// Name of the communicator in error texts.
  std::string name = "communicator";
  /// What errors advise after a failure that has left the ranks at different operations. For a library whose callers
  /// cannot call `recover`, or call it by another name. Must be equal on all ranks. Default: to call
  /// Communicator::recover, and to repeat the calls that not all ranks have completed.
  std::string recovery_advice = {};
};

struct ReduceOptions {
  /// Order of the reduction. Default: the order of the communicator.
  std::optional<Order> order = {};
  /// Name of the operation in error texts. If it is not empty, it must be equal on all ranks.
  std::string_view name = {};
  /// Overrides CommunicatorOptions::fail_after for this call. If the timeout expires on one rank, the call fails on
  /// every rank. If there is no value, or the value is not positive, the fail_after of the communicator applies. send
  /// and recv ignore this option.
  std::optional<std::chrono::milliseconds> fail_after = {};
  /// Source line of this rank's call, for error texts. The ranks do not compare it. Default: the line that constructs
  /// the options; for a call without options, the line of the call.
  std::source_location where = std::source_location::current();
  /// If true, error texts show `name` in place of the kind of the call, its tensors and `order`. For a library that
  /// makes the call on behalf of its own caller. Must be equal on all ranks.
  bool only_name = false;
};

/// A group of ranks. Each rank owns one or more replicas, with contiguous global ids.
///
/// All ranks must call every Collective method in the same order, with the same number of items of the same dtypes and
/// shapes (unless the method permits different shapes). If the calls differ, every rank throws Error(mismatch) with the
/// same text, before any data is used. If a rank does not make the call within the timeout, every rank throws
/// Error(deadline_exceeded), which names the missing rank. If the missing rank waits in an operation of another
/// communicator, and one of the two communicators was created from the other, the error also names that operation. Of
/// several missing ranks, Error::rank() is one that does not wait elsewhere, if there is one.
///
/// A rank departs when its process ends, or when it destroys its communicator. If a call needs a departed rank, every
/// rank throws Error(unavailable), which names the departed rank. Ranks on the node of the departed rank throw within a
/// second. Ranks on other nodes throw as soon as a remaining rank of that node is in a call, too. If no rank remains on
/// that node, ranks on other nodes throw at once if the departed rank destroyed its communicator, but only after the
/// timeout if its process ended. Exception: if a rank waits in a send or receive for a rank of another node, and that
/// rank destroys its communicator, the send or receive fails only after the timeout. It fails earlier if the departed
/// rank is one of the ranks that send a message to the waiting rank in every collective.
///
/// If a collective fails, the collectives that this rank has posted after it fail with the same error, and so do those
/// that it posts before it knows the error from a call that throws it, or from a callback. If, after a mismatch, ranks
/// had posted different numbers of such collectives, every later call throws Error(mismatch) until all ranks call
/// `recover`, which counts them as completed. After an error, the communicator can be used again, with two exceptions.
/// If a rank has ended, or still uses another rank's memory, every later call throws Error(unavailable) at once; the
/// error names the first failed rank. If some ranks completed an operation that failed on others, every later call
/// throws Error(mismatch) until all ranks call `recover`. After an error, a reduction in host memory always uses the
/// canonical order, even if it permits any order.
///
/// A debugger that is attached to a rank suspends the timeouts of all ranks of its node. The timeouts of ranks of other
/// nodes are suspended, too, while they wait in the same operation as a rank of that node. Every method can throw
/// Error(invalid_argument) for an error that only this rank can see. Then the other ranks throw Error(unavailable) with
/// the text of this error. If this rank has no memory for a call, it throws std::bad_alloc, or Error(unavailable) if
/// the operation had begun, and the other ranks throw Error(unavailable), which names this rank. After an error of
/// one rank in a send or receive, only the other end of the message throws. The first asynchronous call of a rank
/// starts a thread: if the system has no thread left, the call throws Error(unavailable) on all ranks. Blocking calls
/// need no thread.
///
/// GPUs: the tensors of a call are either all on GPUs or all in host memory. On GPUs, all tensors of a replica are on
/// one device, and the device is the same in every call. A call that violates this rule throws Error(invalid_argument).
/// A call also throws Error(invalid_argument) if a view names a GPU that cannot access the elements of the view:
/// elements in host memory that is not pinned, or in memory of another GPU. A call with a GPU that does not exist
/// throws Error(unavailable). If ranks disagree on whether tensors are on GPUs, all ranks throw Error(mismatch).
/// In the first call on GPUs that is not a broadcast, the ranks negotiate the path of the data. This call waits for all
/// ranks, even if it is asynchronous. If all replicas are on one GPU, the path is one kernel. If the ranks do not have
/// the same version of NCCL, the path is host memory. Otherwise, the replicas on each GPU are first reduced on that
/// GPU, and then NCCL connects one replica of each GPU. If several ranks share a GPU, only the lowest of these ranks
/// joins NCCL, and the tensors of the other ranks go through host memory. If data goes through host memory, rank 0 logs
/// a warning. After an error, the path is negotiated again.
/// The streams of the devices order a call on GPUs: the call reads its inputs after all work that was submitted to
/// these streams before the call. The results are written when the call is complete. Without NCCL, the inputs are
/// copied to the host during the call.
///
/// Cost between N nodes, or N ranks that share no memory: each collective begins with the agreement, in which the ranks
/// compare their calls. Between nodes, the agreement takes about log4 N rounds. In each round, the lowest rank of each
/// node sends 40 bytes to usually three other nodes (recursive multiplying; Ruefenacht, Bull, Booth 2017). Inside a
/// node, the agreement takes two cache line transfers.
/// The data of a small call travels in the messages of the agreement, and the call sends no other messages. A call is
/// small if no rank sends more than 64 KiB of data in all rounds. If nodes have several ranks, a message of a small
/// call also has at most 16 KiB of data (less for nodes of more than 32 ranks). In these messages, a reduction sends
/// its partial sums; a broadcast or a scatter sends the input of the root; any other collective sends all inputs that
/// the sender has so far, which are its own inputs and those that it has received. The costs at each function below are
/// for calls that are not small.
///
/// Shared handle, like shared_ptr: copies refer to the same group, and a const handle can modify the group.
/// Thread-safety: any thread; if several threads of a rank make calls, the calls are queued. If MPI provides less than
/// MPI_THREAD_SERIALIZED, only the main thread may call; other threads get Error(failed_precondition). If operations
/// are pending, the destructor of the last handle waits for them, at most until the timeout. After this destructor, the
/// rank has departed, and the other ranks can only destroy their handles. If a communicator still exists in
/// MPI_Finalize, MPI_Finalize makes the rank depart in the same way. If MPI provides less than MPI_THREAD_SERIALIZED, a
/// thread other than the main thread must not destroy the last handle: its destructor then logs a warning and does
/// nothing else, and MPI_Finalize waits for the pending operations and makes the rank depart.
class LOCKSTEP_API Communicator {
 public:
  /// Local.
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] const ReplicaLayout& layout() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept { return layout().count(rank()); }
  [[nodiscard]] const CommunicatorOptions& options() const noexcept;
  /// The order of an all_reduce that does not request an order, for tensors on devices of kind `kind`:
  /// CommunicatorOptions::order, or canonical if LOCKSTEP_ORDER requires it. With `any`, the canonical order is also
  /// possible.
  [[nodiscard]] Order order(DeviceKind kind = DeviceKind::cpu) const noexcept;
  /// Name of the transport between nodes: "mpi", "tcp" (LOCKSTEP_TRANSPORT) or "threads".
  [[nodiscard]] std::string_view transport() const noexcept;
  /// With LOCKSTEP_TRANSPORT=auto: why the ranks have chosen it, for people, with what they measured. Else empty. Valid
  /// as long as the communicator.
  [[nodiscard]] std::string_view transport_reason() const noexcept;
  /// Number of nodes. A node is a group of ranks that share memory.
  [[nodiscard]] int nodes() const noexcept;

  /// Creates a communicator over the same ranks, with its own messages and its own sequence of operations. The creation
  /// consists of operations of this communicator: it has their timeout and their errors, and after an error this
  /// communicator can be used again. If members of the new communicator get an error, and the creation has completed on
  /// others, the calls of these on the new communicator throw Error(unavailable) with the text of that error. On the
  /// new communicator, Order::any means the canonical order for tensors in host memory. Collective. Cost: two
  /// all_gathers of at most 120 bytes per replica, and a barrier.
  [[nodiscard]] Communicator duplicate(const CommunicatorOptions& options,
                                       std::source_location where = std::source_location::current()) const;

  /// Divides the ranks into disjoint groups, and creates one communicator for each group. Ranks that pass the same
  /// `color` form a group. In a group, ranks are ordered by `key`; ranks with equal keys, by their rank in this
  /// communicator. Replica ids follow the order of the ranks. A rank that passes a negative color is in no group and
  /// gets std::nullopt. `options` apply to the new communicator, as in duplicate. Collective over this communicator,
  /// also for ranks with a negative color. Timeout, errors, order and cost: as duplicate.
  [[nodiscard]] std::optional<Communicator> split(int color, int key, const CommunicatorOptions& options,
                                                  std::source_location where = std::source_location::current()) const;

  /// Replaces every output by the reduction of all replicas' inputs. Collective.
  /// All inputs of an item have the same dtype and shape, on all ranks. An item may have any number of outputs, also 0.
  /// An output has the shape of the inputs, and dtype result_dtype(op, dtype). An output may be the same view as an
  /// input, but must not overlap an input partly.
  /// Cost on one node: every rank reads its slice of all inputs and writes its slice of all outputs. If the buffers are
  /// in the arena (lockstep::Tensor, ArenaAllocator), there are no copies; otherwise, data goes through staging memory.
  /// The ranks synchronize by two cache line transfers between cores, one after the other; for at most 2 KiB per rank,
  /// one transfer is enough (movement-avoiding reduction; Peng et al., SC 2023).
  /// Cost between nodes: the exchange has several stages. For each stage, the planner chooses the radix k, which is the
  /// number of ranks that exchange data with one another (Thakur, Rabenseifner, Gropp 2005; Ruefenacht, Bull, Booth
  /// 2017). In a stage, a rank sends k-1 messages, or 2(k-1) messages if the stage splits the data (a reduce-scatter,
  /// and later an all-gather). If all stages split the data, each of the P ranks sends in total 2 (P-1)/P times the
  /// bytes of its partial sums.
  void all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_reduce_async(std::span<const Item> items, ReduceOp op,
                                         const ReduceOptions& options = {}) const;

  /// Prepares an all_reduce that is run many times: checks the arguments, and computes the schedule and the addresses,
  /// only once. Local; the runs are collective. Throws Error(invalid_argument) as all_reduce does, but does not abort
  /// the other ranks.
  /// An all_reduce that is repeated without a Plan also reuses these results, but each call must hash all views to find
  /// them.
  [[nodiscard]] Plan prepare_all_reduce(std::span<const Item> items, ReduceOp op,
                                        const ReduceOptions& options = {}) const;

  /// As all_reduce, with outputs on rank `root` only. Collective.
  /// Cost between nodes of k ranks: each node first reduces its inputs, n bytes each, in memory. If there are two
  /// nodes, each rank of the other node then sends n/k bytes to one rank of the root's node. With more nodes, the ranks
  /// of all other nodes do the same if each rank of the root's node then receives at most 64 KiB more than it would
  /// receive with two nodes. Otherwise the cost is that of all_reduce, but results are sent only to the root, or to
  /// ranks that forward them to the root.
  void reduce(std::span<const Item> items, ReduceOp op, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_async(std::span<const Item> items, ReduceOp op, int root,
                                     const ReduceOptions& options = {}) const;

  /// Reduces the inputs of all R replicas, and gives each replica one part of the result. Each input has R*n elements,
  /// and its first axis is divisible by R. Each local replica has one output of n elements: replica r gets part r of
  /// the result. Collective.
  /// In place, in host memory: the output may be part r of the input of the same replica, or begin where this input
  /// begins, as with MPI_IN_PLACE, if both have one dtype. The rest of the input keeps its values. Cost: memory and a
  /// copy of n elements.
  /// Cost on one node: every rank reads, in all inputs, the parts of its own replicas, and writes its outputs; memory
  /// and synchronization are as for all_reduce.
  /// Cost between nodes: if all nodes have the same number of ranks, each node first reduces its inputs in memory. Then
  /// each of the P ranks sends one message, with 1/P of the bytes, to every other node; small parts are instead
  /// exchanged in log N steps (recursive halving). If the nodes have different numbers of ranks, each rank sends P-1
  /// messages.
  void reduce_scatter(std::span<const Item> items, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request reduce_scatter_async(std::span<const Item> items, ReduceOp op,
                                             const ReduceOptions& options = {}) const;

  /// Concatenates the inputs of all R replicas, in the order of replica ids, and writes the result to all outputs. Each
  /// input has n elements, and each output has R*n elements; there may be any number of outputs. Collective.
  /// In place, in host memory: the input of replica r may be part r of an output, as with MPI_IN_PLACE. Cost: memory
  /// and a copy of n elements. This also holds for all_gather_v, gather and gather_v. Cost on one node: every rank
  /// reads all inputs and writes its outputs. If the inputs are in the arena, there are no copies, and the outputs may
  /// be in any memory; otherwise, data goes through staging memory. Synchronization is as for all_reduce. Between
  /// nodes, the exchange is that of reduce_scatter in reverse: each part is sent once to each node.
  void all_gather(std::span<const Item> items, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_gather_async(std::span<const Item> items, const ReduceOptions& options = {}) const;

  /// As all_gather, with outputs on rank `root` only. Collective. On one node, the other ranks wait until the root has
  /// read their inputs, unless the tensors are small. Cost between nodes: each rank sends its input to the root. If all
  /// nodes have the same number of ranks, less than 8 KiB come from each rank, and there are at most 1024 inputs of all
  /// items, each rank instead sends its input to one rank of the root's node, which writes it to the outputs of the
  /// root; between many nodes, the inputs go through other nodes, in log N steps.
  void gather(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request gather_async(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;

  /// As all_gather, but the inputs may have different first extents: the input of replica r has `rows[r]` rows. The
  /// other extents and the dtype are equal on all replicas. An output has sum(rows) rows; there may be any number of
  /// outputs. Collective.
  /// `rows` has either R entries (one per replica), which are valid for all items, or R entries for each item, one item
  /// after the other. The call copies `rows`. The ranks compare `rows`: if it differs between ranks, every rank throws
  /// Error(mismatch). If a rank does not know the numbers of rows of the other ranks, exchange these numbers first, for
  /// example by all_gather. Cost on one node, if all outputs are in the arena: every rank writes its rows to all
  /// outputs. Cost between nodes: that of all_gather if all nodes have the same number of ranks. Otherwise, each rank
  /// sends its rows to the P-1 other ranks, in one step.
  void all_gather_v(std::span<const Item> items, std::span<const std::int64_t> rows,
                    const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows,
                                           const ReduceOptions& options = {}) const;

  /// As all_gather_v, with outputs on rank `root` only. Collective. Cost on one node, if all outputs are in the arena:
  /// every rank writes its rows to the outputs of the root; otherwise, it sends them to the root. Cost between nodes:
  /// that of a gather of equal parts with the same number of bytes in total.
  void gather_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                const ReduceOptions& options = {}) const;
  [[nodiscard]] Request gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                       const ReduceOptions& options = {}) const;

  /// Divides the input of rank `root` into one part for each of the R replicas. The root has one input of R*n elements.
  /// On every rank, each local replica has one output of n elements: replica r gets part r. All outputs have the same
  /// shape. No two outputs may be the same view. Collective.
  /// In place, in host memory: the output of replica r of the root may be part r of the input, as with MPI_IN_PLACE,
  /// and this also holds for scatter_v. Cost: memory and a copy of n elements. No output may overlap the input
  /// otherwise. Cost between nodes, under the conditions that gather states: that of gather in reverse; each rank of
  /// the root's node reads the parts that it sends in the input of the root. Otherwise, the root sends one message with
  /// its parts to each other rank, in one step; ranks that share memory with the root copy their parts from its input
  /// instead.
  void scatter(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request scatter_async(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;

  /// As scatter, but the parts may have different first extents: replica r gets `rows[r]` rows, and the input has
  /// sum(rows) rows. `rows` has the form that all_gather_v describes. Collective. Cost: that of a scatter of
  /// equal parts with the same number of bytes in total.
  void scatter_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                 const ReduceOptions& options = {}) const;
  [[nodiscard]] Request scatter_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                        const ReduceOptions& options = {}) const;

  /// Each of the R replicas has an input of R parts; part s of the input of replica r becomes part r of the output of
  /// replica s. All parts have the same size (the first axis of an input is divisible by R), and all inputs have the
  /// same shape on all ranks. Each local replica has one output, with as many elements as an input. An output may be
  /// the same view as an input of any local replica; no two outputs may be the same view. Collective.
  /// Cost: a rank copies its parts from the inputs of the ranks with which it shares memory, unless an output of one of
  /// these ranks is the same view as an input. Between N nodes, all with the same numbers of ranks and replicas, and
  /// for inputs of at most 4 MiB per rank, each rank then sends what its node has for the ranks at its place in the
  /// other nodes: in one step with one message to each of N-1 nodes or, if parts are small, in about log N steps, each
  /// with a few messages (Bruck et al. 1997). Otherwise, each rank sends one message to each other rank, at most P-1
  /// messages with (P-1)/P times the bytes of its inputs in total, in one step (Thakur, Rabenseifner, Gropp 2005).
  void all_to_all(std::span<const Item> items, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_to_all_async(std::span<const Item> items, const ReduceOptions& options = {}) const;

  /// As all_to_all, but the parts may have different first extents: local replica i sends `send_rows[i*R + s]` rows to
  /// replica s, and receives `receive_rows[i*R + r]` rows from replica r; the parts are stored one after the other.
  /// With one replica per rank, `send_rows` and `receive_rows` are the counts of MPI_Alltoallv, in rows. Each argument
  /// has either one list, which is valid for all items, or one list for each item, one list after the other. All other
  /// extents and the dtype are equal on all replicas. Collective.
  /// Before any row is sent, the numbers of the senders are compared with the numbers of the receivers. If they differ,
  /// every rank throws Error(mismatch), which names the first pair of replicas that differ and the two numbers; the
  /// communicator can be used again.
  /// Cost: each rank first sends P-1 messages, with 8 bytes for each pair of replicas and each item, and ceil(log2 P)
  /// small messages (dissemination; Hensgen, Finkel, Manber 1988). Then the cost is that of all_to_all.
  void all_to_all_v(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_to_all_v_async(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                           std::span<const std::int64_t> receive_rows,
                                           const ReduceOptions& options = {}) const;

  /// Copies the input of rank `root` to all outputs of every rank. Each rank except the root has at least one output.
  /// On these ranks, the outputs determine the dtype and the shape. Collective.
  /// Cost on one node: every other rank reads the input and writes its outputs, as in all_gather. Unless the tensors
  /// are small, the root waits until the other ranks have read its input.
  /// Cost between N nodes of k ranks, for n bytes: if there are two nodes, each rank of the root's node sends n/k bytes
  /// to one rank of the other node. With more nodes, each rank of the root's node sends n/k bytes to one rank of each
  /// other node if it then sends in total at most 64 KiB more than it would send with two nodes. Otherwise the
  /// broadcast is a scatter among all ranks, then an all-gather (van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005);
  /// in both together, each rank sends at most 2 (N-1)/N n/k bytes. Inside a node, the data moves in shared memory. If
  /// the ranks of a node share no memory, each rank sends at most P-1 messages.
  void broadcast(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request broadcast_async(std::span<const Item> items, int root, const ReduceOptions& options = {}) const;

  /// Returns when every rank has called barrier. Collective.
  void barrier(const ReduceOptions& options = {}) const;
  [[nodiscard]] Request barrier_async(const ReduceOptions& options = {}) const;

  /// Sends tensors to rank `target`. The k-th send from this rank to `target` matches the k-th recv on `target` with
  /// this rank as the source. Each ordered pair of ranks has its own sequence of messages, which is independent of the
  /// collectives. The lists of tensors on both ranks must agree in number, dtypes and shapes. If they do not agree,
  /// both ranks throw Error(mismatch) with the same text, no data moves, and the message is consumed. If one of the two
  /// ranks does not call within the timeout, both ranks get Error(deadline_exceeded). If only this rank can see an
  /// error, this rank throws Error(invalid_argument) and the other rank throws Error(unavailable). `abort` does not end
  /// pending messages.
  /// Completion: inside a node, a send is complete when the receiver has the data. Between nodes, for the first message
  /// from one rank to another, and if the arena is full, a send is complete when the receiver has agreed and the
  /// tensors have been copied or sent. The requests of sends and receives complete in any order. A receive that fails
  /// may have written to its tensors. Cost between nodes, for the first message from one rank to another, and if the
  /// arena is full: up to 32 KiB, 2 messages (an offer with the data, and an answer); else 3 (an offer, an answer and
  /// the data), of which 2 are small. A send whose receiver has not called recv is withdrawn somewhat before its
  /// deadline, by a tenth of it or a second. Otherwise inside a node: two transfers of a cache line, and one copy of
  /// the data if it is one tensor of more than 4 KiB in the arena, else two copies. At most 16 messages from one rank
  /// to another are in progress; later ones wait. For each direction that is used, the sender keeps 75 KiB of the
  /// arena, and 257 KiB more once it has sent more than 4 KiB from other memory. The tensors of both ranks may be on
  /// GPUs. The data then goes through pinned host memory even if NCCL is available: NCCL requires the same order of
  /// calls on all ranks, but a message can be sent at any time relative to the collectives.
  void send(std::span<const ConstTensorView> tensors, int target, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request send_async(std::span<const ConstTensorView> tensors, int target,
                                   const ReduceOptions& options = {}) const;
  /// Receives tensors that rank `source` sends. No two tensors may overlap. Errors, completion and cost: as send.
  void recv(std::span<const TensorView> tensors, int source, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request recv_async(std::span<const TensorView> tensors, int source,
                                   const ReduceOptions& options = {}) const;

  // The functions below are the calls above for one tensor of this rank. The rank must have exactly one replica;
  // otherwise the call throws Error(invalid_argument). For broadcast, send and recv, the rank may have any number of
  // replicas. The argument is a named container (std::vector, std::array, ...), a std::span, one element, or a view; a
  // container or a span is a 1-dimensional tensor. Arguments that only the root uses are ignored on the other ranks,
  // and may be empty there. The elements must stay valid until the call, or its request, is complete. Each function is
  // collective if the corresponding call above is collective. Cost: that of the call above with one item.

  /// In place. The mean of integers has dtype f64, so it needs the overload with an output.
  void all_reduce(Elements values, ReduceOp op, const ReduceOptions& options = {}) const;
  void all_reduce(ConstElements input, Elements output, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_reduce_async(Elements values, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request all_reduce_async(ConstElements input, Elements output, ReduceOp op,
                                         const ReduceOptions& options = {}) const;
  [[nodiscard]] Plan prepare_all_reduce(Elements values, ReduceOp op, const ReduceOptions& options = {}) const;
  [[nodiscard]] Plan prepare_all_reduce(ConstElements input, Elements output, ReduceOp op,
                                        const ReduceOptions& options = {}) const;
  /// Returns the reduction of one number per rank.
  template <Element T>
  [[nodiscard]] T all_reduce(T value, ReduceOp op, const ReduceOptions& options = {}) const {
    all_reduce(Elements(value), op, options);
    return value;
  }

  /// In place on the root. The values of the other ranks do not change.
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
  /// Returns the numbers of all ranks, by rank.
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

  /// `values` is read on the root and written on the other ranks.
  void broadcast(Elements values, int root, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request broadcast_async(Elements values, int root, const ReduceOptions& options = {}) const;
  void send(ConstElements values, int target, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request send_async(ConstElements values, int target, const ReduceOptions& options = {}) const;
  void recv(Elements values, int source, const ReduceOptions& options = {}) const;
  [[nodiscard]] Request recv_async(Elements values, int source, const ReduceOptions& options = {}) const;

  /// Number of operations of this communicator that this rank has completed. The numbers of different ranks can be
  /// compared. The number includes the library's own operations, so a program cannot derive it from its own calls. To
  /// use `recover`, store the number at the beginning of each step. Local.
  [[nodiscard]] std::int64_t completed_operations() const;

  /// Call this function after a failure to continue at the same operation on all ranks. Returns the number of
  /// operations that all ranks have completed, which is the lowest completed_operations() of all ranks, and sets
  /// completed_operations() to this number on every rank.
  /// This is necessary because some ranks may have completed an operation that failed on other ranks. As long as the
  /// numbers of the ranks differ, every operation except recover throws Error(mismatch) on all ranks, so a retry never
  /// combines two different steps. After recover, resume the step that began at the returned number. A rank whose own
  /// number was higher by d must repeat its last d completed calls, with the original inputs.
  /// Collective; no rank may have pending requests. If a failure has not yet been thrown by a call of this rank, it is
  /// not thrown any more. If another rank fails meanwhile, this rank waits until that rank calls recover, too. A
  /// rank that has no memory for recover must call it again: the others wait for it, or throw its error. Throws as
  /// all_gather.
  [[nodiscard]] std::int64_t recover(std::source_location where = std::source_location::current()) const;

  /// Aborts the current epoch, which is the time since the last failure of this communicator, on all ranks. On each
  /// other rank, the current or next operation throws Error(unavailable) with `text` and with the source line `where`.
  /// The operations of this rank that are in progress also throw Error(unavailable) with `text`. After that, the
  /// communicator can be used again. Local: returns at once. Thread-safe.
  void abort(std::string_view text, std::source_location where = std::source_location::current()) const;

 private:
  friend struct CommunicatorAccess;  // the library's own factories
  struct State;
  explicit Communicator(std::shared_ptr<State> state) noexcept;

  std::shared_ptr<State> state_;
};

/// A communicator over all ranks of the job (a duplicate of MPI_COMM_WORLD). Collective, with the timeout of `options`.
/// Throws Error(failed_precondition) if MPI is not initialized (a lockstep::Environment initializes MPI), or on a
/// thread that may not call MPI. Throws Error(deadline_exceeded) on a timeout; the error names the missing ranks and,
/// if it is known, the operation in which each missing rank waits. Throws Error(unavailable) if a message was lost
/// because an earlier call was interrupted. With an Environment, each rank gets each of these errors once, in this call
/// or the next call, and may then try again. Without an Environment, throws Error(invalid_argument) as
/// communicator_from does if a file of LOCKSTEP_METRICS, LOCKSTEP_TRACE or LOCKSTEP_HASH_LOG cannot be written.
/// Thread-safety: any thread, but all ranks must make their calls for MPI_COMM_WORLD in the same order.
[[nodiscard]] LOCKSTEP_API Communicator world_communicator(const CommunicatorOptions& options = {});

/// A communicator of one rank, for programs without MPI. Local.
[[nodiscard]] LOCKSTEP_API Communicator self_communicator(const CommunicatorOptions& options = {});

/// Creates the communicators of `options.size()` ranks that are threads of this process. Each communicator is for one
/// thread of the caller: the thread of rank p uses communicator p. The ranks exchange data in memory.
/// `options[p].local_replicas` is the number of replicas of rank p. Local.
[[nodiscard]] LOCKSTEP_API std::vector<Communicator> thread_communicators(std::span<const CommunicatorOptions> options);

}  // namespace lockstep
