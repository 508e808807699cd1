// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches for the replicas of one rank, without their element type. `DistributedDataset<T>` is the typed edge around
// it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/pipeline.hpp>
#include <lockstep/input/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// Where reading a distributed dataset stands: `step` steps of pass `pass` have been given. Where the dataset is
/// sharded automatically it is the same on all ranks and means the same on any layout of as many replicas. A value.
struct ReadingPosition {
  std::uint64_t pass = 0;
  std::uint64_t step = 0;
  friend bool operator==(const ReadingPosition&, const ReadingPosition&) = default;
};

}  // namespace lockstep

namespace lockstep::input {

/// One pass over a distributed dataset. Move-only. Thread-safety: one thread at a time. Destruction ends its prefetch
/// thread: it waits for the element that is just being read, not for the rest.
class LOCKSTEP_API Feed {
 public:
  class Implementation;
  explicit Feed(std::unique_ptr<Implementation> implementation) noexcept;
  Feed(Feed&&) noexcept;
  Feed& operator=(Feed&&) noexcept;
  ~Feed();

  /// `batches[i]` becomes the batch of local replica i; false at the end, and ever after. All ranks reach the end after
  /// the same number of steps. Throws what reading throws; the pass is then over here, and the peers, if there are any,
  /// are told. Throws Error(invalid_argument) when called inside a replica's function.
  bool next(std::vector<Leaves>& batches);
  /// What the next call of `next` gives; what has been prepared ahead does not count. Local.
  [[nodiscard]] ReadingPosition position() const noexcept;
  /// Seconds that `next` spent waiting for data.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  std::unique_ptr<Implementation> implementation_;
};

/// Opens feeds. Shared handle: copies number their passes together. Thread-safety: any thread.
class LOCKSTEP_API FeedSource {
 public:
  class Implementation;
  explicit FeedSource(std::shared_ptr<Implementation> implementation) noexcept;

  /// Starts the next pass, or pass `pass`, which counts for nothing else. Passes are numbered from 0 as they begin.
  /// Collective where ranks read streams of their own, else Local.
  [[nodiscard]] Feed open() const;
  [[nodiscard]] Feed open(std::uint64_t pass) const;
  /// Goes on at `position`; the pass after it is then the next one. Collective as `open`.
  [[nodiscard]] Feed resume(ReadingPosition position) const;
  /// What the tensors of a batch will be, for each local replica: see DistributedDataset.
  [[nodiscard]] std::vector<std::vector<TensorSpec>> element_spec() const;
  /// Which rank reads what: see DistributedDataset.
  [[nodiscard]] std::string describe() const;
  /// Global id of the first replica of this rank.
  [[nodiscard]] int first_replica() const noexcept;
  /// Replicas of this rank.
  [[nodiscard]] int local_replicas() const noexcept;
  /// Seconds that all feeds of this source together have spent waiting for data.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  std::shared_ptr<Implementation> implementation_;
};

/// Feeds replicas parts of the batches of `global`, the same dataset on all ranks, as `options` say; `leaves` is the
/// number of tensors in an element. Local, and so is reading with AutoShardPolicy automatic and data: nothing is sent.
/// With file, off and hint each pass is read as `feed_pipelines` does. With one replica in all, a dataset without
/// batches is fed element by element. Throws Error(invalid_argument) when `global` is not batched for several replicas,
/// the rank is not in the layout, or an option is out of range; when the policy and the layout or the dataset do not go
/// together; Error(unimplemented) for per_replica. The peers are told of what they cannot see.
[[nodiscard]] LOCKSTEP_API FeedSource feed_dataset(const Pipeline& global, std::size_t leaves,
                                                   const InputLayout& layout, const InputOptions& options);

/// Feeds each local replica the next element of `local`, this rank's own dataset; a step takes as many elements as
/// there are local replicas. With a list of as many datasets as local replicas, each replica takes the next element of
/// its own. `leaves` is the number of tensors in an element, equal on all ranks. Opening a pass is Collective over
/// `communicator`. Where all ranks know the length of their datasets, that one exchange fixes the number of steps;
/// otherwise each `next` is Collective too: a byte per replica says who has data. `devices` as InputLayout's.
[[nodiscard]] LOCKSTEP_API FeedSource feed_pipelines(const std::vector<Pipeline>& local, std::size_t leaves,
                                                     const Communicator& communicator, const InputOptions& options,
                                                     const std::vector<Device>& devices = {});

/// Throws what is wrong with the options of a dataset function before it is called. Local.
LOCKSTEP_API void check_function_options(const InputOptions& options);

}  // namespace lockstep::input
