// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A distributed dataset without its element type: batches for the replicas of one rank. `DistributedDataset<T>` is the
// typed interface to it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Static dtype and shape of a tensor. An extent without a value is not known before the tensor is read. Value type.
struct TensorSpec {
  DType dtype = DType::f32;
  std::vector<std::optional<std::int64_t>> shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// "i64[?, 28]". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const TensorSpec& spec);

/// A position in a distributed dataset: `step` steps of pass `pass` have been returned. If the dataset is sharded
/// automatically, the position is equal on all ranks, and denotes the same data on any layout with the same number of
/// replicas. Value type.
struct ReadingPosition {
  std::uint64_t pass = 0;
  std::uint64_t step = 0;
  friend bool operator==(const ReadingPosition&, const ReadingPosition&) = default;
};

}  // namespace lockstep

namespace lockstep::input {

/// Reads one pass over a distributed dataset. Move-only. Thread-safety: one thread at a time. The destructor ends the
/// prefetch thread: it waits only for the element that is being read.
class LOCKSTEP_API DistributedReader {
 public:
  class Implementation;
  explicit DistributedReader(std::unique_ptr<Implementation> implementation) noexcept;
  DistributedReader(DistributedReader&&) noexcept;
  DistributedReader& operator=(DistributedReader&&) noexcept;
  ~DistributedReader();

  /// Stores the batch of local replica i in `batches[i]`. Returns false at the end, and in every later call. All ranks
  /// reach the end after the same number of steps.
  /// Throws exceptions of reading; the pass is then over on this rank, and the other ranks, if any, are aborted.
  /// Throws Error(invalid_argument) in replica context.
  bool next(std::vector<Leaves>& batches);
  /// The position of the batches that `next` returns next; batches prepared ahead do not count. Local.
  [[nodiscard]] ReadingPosition position() const noexcept;
  /// Seconds that `next` has waited for data.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  std::unique_ptr<Implementation> implementation_;
};

/// A dataset distributed to the replicas. Shared handle: copies share the pass number. Thread-safety: any thread.
class LOCKSTEP_API DistributedPipeline {
 public:
  class Implementation;
  explicit DistributedPipeline(std::shared_ptr<Implementation> implementation) noexcept;

  /// Starts the next pass; or pass `pass`, which does not change the number of the next one. Passes are numbered from 0
  /// in the order in which they begin. Collective if ranks read streams of their own, otherwise Local.
  [[nodiscard]] DistributedReader open() const;
  [[nodiscard]] DistributedReader open(std::uint64_t pass) const;
  /// Continues at `position`; the next pass is then the one after it. Collective as `open`.
  [[nodiscard]] DistributedReader resume(ReadingPosition position) const;
  /// Dtypes and static shapes of a batch's tensors, for each local replica: see DistributedDataset.
  [[nodiscard]] std::vector<std::vector<TensorSpec>> element_spec() const;
  /// The data that each rank reads, as text: see DistributedDataset.
  [[nodiscard]] std::string describe() const;
  /// Global id of the first replica of this rank.
  [[nodiscard]] int first_replica() const noexcept;
  /// Number of replicas of this rank.
  [[nodiscard]] int local_replicas() const noexcept;
  /// Seconds that all readers of this pipeline together have waited for data.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  std::shared_ptr<Implementation> implementation_;
};

/// Gives replicas their parts of the batches of `global`, which must be the same dataset on all ranks, as `options`
/// say. `leaves` is the number of tensors in an element. Local; with AutoShardPolicy automatic and data, reading is
/// Local too. With file, off and hint each pass is read as by `distribute_local_pipelines`. If there is only one
/// replica, a dataset that is not batched is read element by element.
/// Throws Error(invalid_argument) if `global` is not batched but there are several replicas, if the rank is not in the
/// layout, if an option is out of range, and if the policy is incompatible with the layout or the dataset;
/// Error(unimplemented) for per_replica. A failure that other ranks may not see aborts them.
[[nodiscard]] LOCKSTEP_API DistributedPipeline distribute_pipeline(const Pipeline& global, std::size_t leaves,
                                                                   const InputLayout& layout,
                                                                   const InputOptions& options);

/// Gives each local replica the next element of this rank's own dataset: if `local` has one dataset, a step takes one
/// element for each local replica; otherwise `local` has one dataset per local replica. `leaves` is the number of
/// tensors in an element, equal on all ranks. Opening a pass is Collective over `communicator`. If all ranks know the
/// lengths of their datasets, that one exchange determines the number of steps; otherwise each `next` is Collective
/// too, and exchanges one byte per replica. `devices` as in InputLayout.
[[nodiscard]] LOCKSTEP_API DistributedPipeline distribute_local_pipelines(const std::vector<Pipeline>& local,
                                                                          std::size_t leaves,
                                                                          const Communicator& communicator,
                                                                          const InputOptions& options,
                                                                          const std::vector<Device>& devices = {});

/// Checks the options of a dataset function before it is called. Local.
LOCKSTEP_API void check_function_options(const InputOptions& options);

}  // namespace lockstep::input
