// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Buffers in the arena and elsewhere, on some ranks or all: their location never changes the bits of a result.

#include <lockstep/base/error.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/arena_pmr.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/interop/mpi.hpp>

#include "support/batch.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory_resource>
#include <thread>
#include <tuple>
#include <utility>

namespace lockstep::test {
namespace {

/// One block from the arena or the heap.
class Block {
 public:
  Block(bool in_arena, const Bytes& content)
      : resource_(in_arena ? arena_memory_resource() : heap_memory_resource()),
        bytes_(content.size()),
        data_(resource_->allocate(bytes_)) {
    if (bytes_ != 0) std::memcpy(data_, content.data(), bytes_);
  }
  Block(Block&& other) noexcept
      : resource_(std::move(other.resource_)), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  Block& operator=(Block&&) = delete;
  ~Block() {
    if (data_ != nullptr) resource_->deallocate(data_, bytes_);
  }
  [[nodiscard]] void* data() const { return data_; }
  void fill(const Bytes& content) {
    if (bytes_ != 0) std::memcpy(data_, content.data(), bytes_);
  }
  [[nodiscard]] Bytes content() const {
    const auto* const begin = static_cast<const std::byte*>(data_);
    return {begin, begin + bytes_};
  }

 private:
  std::shared_ptr<MemoryResource> resource_;
  std::size_t bytes_;
  void* data_;
};

/// A list of tensors in place or not, each buffer in the arena or not by the bits of `placement`, run as one call.
void check_placement(Communicator& comm, ReduceOp op, const std::vector<TensorCase>& tensors, bool in_place,
                     unsigned placement, int runs) {
  const ReplicaLayout& layout = comm.layout();
  unsigned next = 0;
  const auto in_arena = [&] { return (placement >> (next++ % 8) & 1) != 0; };
  std::vector<std::vector<Block>> inputs(tensors.size());
  std::vector<std::vector<Block>> outputs(tensors.size());
  std::vector<std::vector<ConstTensorView>> input_views(tensors.size());
  std::vector<std::vector<TensorView>> output_views(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape shape{tensors[i].count};
    for (int replica = layout.first(comm.rank()); replica < layout.first(comm.rank() + 1); ++replica) {
      inputs[i].emplace_back(in_arena(), leaf(tensors[i], i, replica));
      input_views[i].emplace_back(inputs[i].back().data(), tensors[i].dtype, shape);
      if (in_place) {
        output_views[i].push_back({inputs[i].back().data(), tensors[i].dtype, shape, Device{}});
        continue;
      }
      const DType dtype = result_dtype(op, tensors[i].dtype);
      const std::size_t bytes = static_cast<std::size_t>(tensors[i].count) * size_of(dtype);
      outputs[i].emplace_back(in_arena(), Bytes(bytes, std::byte{0xa5}));
      output_views[i].push_back({outputs[i].back().data(), dtype, shape, Device{}});
    }
  }
  std::vector<Item> items;
  for (std::size_t i = 0; i < tensors.size(); ++i) items.push_back({input_views[i], output_views[i]});
  std::vector<std::vector<Bytes>> expected;
  for (std::size_t i = 0; i < tensors.size(); ++i) expected.push_back({reduced(op, tensors[i], i, layout.replicas())});

  Plan plan = comm.prepare_all_reduce(items, op);
  for (int run = 0; run < runs; ++run) {
    switch (run % 3) {
      case 0: comm.all_reduce(items, op); break;
      case 1: plan.run(); break;
      default: comm.all_reduce_async(items, op).wait(); break;
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& results = in_place ? inputs[i] : outputs[i];
      for (std::size_t r = 0; r < results.size(); ++r) {
        ASSERT_EQ(results[r].content(), expected[i].front()) << to_string(op) << ", item " << i << ", local replica "
                                                             << r << ", placement " << placement << ", run " << run;
      }
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t r = 0; r < inputs[i].size(); ++r) {
        const Bytes again = leaf(tensors[i], i, layout.first(comm.rank()) + static_cast<int>(r));
        if (!again.empty()) std::memcpy(inputs[i][r].data(), again.data(), again.size());
      }
    }
  }
}

enum class Kind : std::uint8_t { reduce_scatter, all_gather, gather, broadcast };

/// The same values serve every placement: made once.
using ValueKey = std::tuple<DType, std::int64_t, std::size_t, int>;
const Bytes& known_leaf(const TensorCase& tensor, std::size_t seed, int replica) {
  static std::map<ValueKey, Bytes> known;
  const auto [entry, is_new] = known.try_emplace({tensor.dtype, tensor.count, seed, replica});
  if (is_new) entry->second = leaf(tensor, seed, replica);
  return entry->second;
}
const Bytes& known_sum(const TensorCase& tensor, std::size_t seed, int replicas) {
  static std::map<ValueKey, Bytes> known;
  const auto [entry, is_new] = known.try_emplace({tensor.dtype, tensor.count, seed, replicas});
  if (is_new) {
    entry->second = canonical_reduce(ReduceOp::sum, tensor.dtype, all_leaves(tensor, seed, replicas));
  }
  return entry->second;
}

/// Buffers of one call that is repeated with other values: their location, and their expected values.
class RepeatedCall {
 public:
  RepeatedCall(Communicator& comm, Kind kind, int root, std::vector<TensorCase> tensors, unsigned placement)
      : comm_(comm), kind_(kind), root_(root), tensors_(std::move(tensors)), placement_(placement) {
    const bool is_root = comm.rank() == root;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (kind == Kind::reduce_scatter) tensors_[i].count *= comm.layout().replicas();
      const int given = kind == Kind::broadcast ? (is_root ? 1 : 0) : comm.local_replicas();
      auto& inputs = inputs_.emplace_back();
      auto& input_views = input_views_.emplace_back();
      for (int k = 0; k < given; ++k) {
        inputs.emplace_back(in_arena(), known_leaf(tensors_[i], seed(i, 0), 0));
        input_views.emplace_back(inputs.back().data(), tensors_[i].dtype, Shape{tensors_[i].count});
      }
      add_outputs(i);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) items_.push_back({input_views_[i], output_views_[i]});
  }

  void run(int run) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      for (std::size_t k = 0; k < inputs_[i].size(); ++k)
        inputs_[i][k].fill(known_leaf(tensors_[i], seed(i, run), first_replica() + static_cast<int>(k)));
      for (Block& output : outputs_[i]) output.fill(Bytes(output.content().size(), std::byte{0xa5}));
    }
    run % 2 == 0 ? call() : call_async().wait();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      for (std::size_t k = 0; k < outputs_[i].size(); ++k) {
        ASSERT_EQ(outputs_[i][k].content(), expected(i, k, run))
            << "kind " << static_cast<int>(kind_) << ", root " << root_ << ", item " << i << ", output " << k
            << ", placement " << placement_ << ", run " << run;
      }
    }
  }

 private:
  [[nodiscard]] bool in_arena() { return (placement_ >> (next_++ % 8) & 1) != 0; }
  [[nodiscard]] static std::size_t seed(std::size_t item, int run) {
    return item + static_cast<std::size_t>(run) * 100'000;
  }
  [[nodiscard]] int first_replica() const {
    return kind_ == Kind::broadcast ? root_ : comm_.layout().first(comm_.rank());
  }

  void add_outputs(std::size_t i) {
    const bool is_root = comm_.rank() == root_;
    std::int64_t count = tensors_[i].count;
    std::size_t outputs = 2;
    switch (kind_) {
      case Kind::reduce_scatter:
        count /= comm_.layout().replicas();
        outputs = static_cast<std::size_t>(comm_.local_replicas());
        break;
      case Kind::gather: outputs = is_root ? 1 : 0; [[fallthrough]];
      case Kind::all_gather: count *= comm_.layout().replicas(); break;
      case Kind::broadcast: break;
    }
    auto& blocks = outputs_.emplace_back();
    auto& views = output_views_.emplace_back();
    for (std::size_t k = 0; k < outputs; ++k) {
      blocks.emplace_back(in_arena(), Bytes(static_cast<std::size_t>(count) * size_of(tensors_[i].dtype)));
      views.push_back({blocks.back().data(), tensors_[i].dtype, Shape{count}, Device{}});
    }
    // a root may have its value as an output too
    if (kind_ == Kind::broadcast && is_root)
      views.push_back({inputs_[i].front().data(), tensors_[i].dtype, Shape{count}, Device{}});
  }

  void call() {
    switch (kind_) {
      case Kind::reduce_scatter: comm_.reduce_scatter(items_, ReduceOp::sum); break;
      case Kind::all_gather: comm_.all_gather(items_); break;
      case Kind::gather: comm_.gather(items_, root_); break;
      case Kind::broadcast: comm_.broadcast(items_, root_); break;
    }
  }
  [[nodiscard]] Request call_async() {
    switch (kind_) {
      case Kind::reduce_scatter: return comm_.reduce_scatter_async(items_, ReduceOp::sum);
      case Kind::all_gather: return comm_.all_gather_async(items_);
      case Kind::gather: return comm_.gather_async(items_, root_);
      case Kind::broadcast: break;
    }
    return comm_.broadcast_async(items_, root_);
  }

  [[nodiscard]] Bytes expected(std::size_t i, std::size_t output, int run) const {
    const TensorCase& tensor = tensors_[i];
    if (kind_ == Kind::broadcast) return known_leaf(tensor, seed(i, run), root_);
    const int replicas = comm_.layout().replicas();
    if (kind_ != Kind::reduce_scatter) {
      Bytes all;
      for (int replica = 0; replica < replicas; ++replica) {
        const Bytes& value = known_leaf(tensor, seed(i, run), replica);
        all.insert(all.end(), value.begin(), value.end());
      }
      return all;
    }
    const Bytes& all = known_sum(tensor, seed(i, run), replicas);
    const std::size_t part = all.size() / static_cast<std::size_t>(replicas);
    const auto begin =
        all.begin() +
        static_cast<std::ptrdiff_t>(part * (static_cast<std::size_t>(comm_.layout().first(comm_.rank())) + output));
    return {begin, begin + static_cast<std::ptrdiff_t>(part)};
  }

  Communicator& comm_;
  Kind kind_;
  int root_;
  std::vector<TensorCase> tensors_;
  unsigned placement_;
  unsigned next_ = 0;
  std::vector<std::vector<Block>> inputs_;
  std::vector<std::vector<Block>> outputs_;
  std::vector<std::vector<ConstTensorView>> input_views_;
  std::vector<std::vector<TensorView>> output_views_;
  std::vector<Item> items_;
};

/// Around every bound: one line, the control blocks, a page per slice, one round of staging, several.
std::vector<std::vector<TensorCase>> lists() {
  return {{{DType::f32, 2}},
          {{DType::f32, 512}},
          {{DType::f32, 513}},
          {{DType::bf16, 3001}},
          {{DType::f32, 4096}, {DType::f64, 7}},
          {{DType::f32, 20'011}},
          {{DType::f32, 0}, {DType::f16, 5}, {DType::f32, 100'003}, {DType::i8, 300'001}, {DType::f64, 70'001}}};
}

void check_layout(Communicator comm) {
  for (const auto& list : lists()) {
    // all in the arena, none, some ranks', some buffers
    const unsigned of_this_rank = comm.rank() % 2 == 0 ? 0xff : 0;
    for (const unsigned placement : {0xffu, 0u, of_this_rank, 0x5au, 0x96u ^ of_this_rank}) {
      for (const bool in_place : {true, false}) check_placement(comm, ReduceOp::sum, list, in_place, placement, 3);
    }
    check_placement(comm, ReduceOp::mean, list, false, 0x6d, 2);
    check_placement(comm, ReduceOp::min, list, true, 0x6d, 2);
  }
}

void check_movers(Communicator comm) {
  const unsigned of_this_rank = comm.rank() % 2 == 0 ? 0xff : 0;
  const int last = comm.size() - 1;
  for (const auto& list : lists()) {
    for (const unsigned placement : {0xffu, 0u, of_this_rank, ~of_this_rank, 0x5au, 0x96u ^ of_this_rank}) {
      for (const auto& [kind, root] : {std::pair(Kind::reduce_scatter, -1),
                                       {Kind::all_gather, -1},
                                       {Kind::gather, 0},
                                       {Kind::gather, last},
                                       {Kind::broadcast, 0},
                                       {Kind::broadcast, last}}) {
        RepeatedCall call(comm, kind, root, list, placement);
        for (int run = 0; run < 3; ++run) call.run(run);
      }
    }
  }
}

TEST(Memory, never_changes_a_bit) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  check_layout(world);
  CommunicatorOptions options;
  options.local_replicas = 1 + world.rank() % 3;
  check_layout(world.duplicate(options));
}

TEST(Memory, never_changes_what_is_moved) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  check_movers(world);
  CommunicatorOptions options;
  options.local_replicas = 1 + world.rank() % 3;
  check_movers(world.duplicate(options));
}

TEST(Memory, is_the_arena_by_default_once_ranks_share_a_node) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  const Tensor tensor(DType::f32, Shape{1000});
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int neighbours = 0;
  MPI_Comm_size(node, &neighbours);
  MPI_Comm_free(&node);
  const bool is_shared =
      neighbours > 1 && arena_status().is_available && std::getenv("LOCKSTEP_SHARED_MEMORY") == nullptr;
  EXPECT_EQ(is_in_arena(tensor.data(), tensor.byte_count()), is_shared);
}

TEST(Memory, of_the_users_containers_can_lie_in_the_arena) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  std::vector<float, ArenaAllocator<float>> gradient(70'000, static_cast<float>(world.rank() + 1));
  std::pmr::vector<double> other(1000, 1.0, arena_pmr_resource());
  if (arena_status().is_available) {
    EXPECT_TRUE(is_in_arena(gradient.data(), gradient.size() * sizeof(float)));
    EXPECT_TRUE(is_in_arena(other.data(), other.size() * sizeof(double)));
  }
  world.all_reduce(std::span<float>(gradient), ReduceOp::sum);
  world.all_reduce(std::span<double>(other), ReduceOp::sum);
  const auto ranks = static_cast<float>(world.size());
  EXPECT_EQ(gradient[69'999], ranks * (ranks + 1) / 2);
  EXPECT_EQ(other[999], static_cast<double>(world.size()));
}

TEST(Memory, that_was_freed_is_missed_by_its_plan) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  if (!arena_status().is_available) GTEST_SKIP() << "no arena: " << arena_status().text;
  std::optional<Tensor> tensor;
  tensor.emplace(DType::f32, Shape{5000}, arena_memory_resource());
  Tensor other(DType::f32, Shape{10}, arena_memory_resource());
  const TensorView view = tensor->view();
  const ConstTensorView input = view;
  const Item item{std::span(&input, 1), std::span(&view, 1)};
  Plan plan = world.prepare_all_reduce(std::span(&item, 1), ReduceOp::sum);
  plan.run();
  other = Tensor();  // another block: nothing happens
  plan.run();
  tensor.reset();
  try {
    plan.run();
    ADD_FAILURE() << "a freed buffer went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition) << error.what();
  }
  world.barrier();
}

TEST(Memory, of_many_plans_and_communicators_is_given_back) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  std::vector<float> values(100'000, 1.0f);
  const auto once = [&] {
    Communicator comm = world.duplicate({});
    for (int i = 0; i < 5; ++i) comm.all_reduce(std::span(values).subspan(static_cast<std::size_t>(i)), ReduceOp::max);
  };
  for (int i = 0; i < 5; ++i) once();
  world.barrier();
  const std::size_t before = arena_status().populated_bytes;
  for (int i = 0; i < 20; ++i) once();
  // what a slow rank may still look at is kept for a while, so not to the byte
  EXPECT_LT(arena_status().populated_bytes, before + (std::size_t{8} << 20));
}

/// A rank that waits in one communicator must not send messages about it in the others, which this rank does not read.
TEST(Memory, of_idle_communicators_does_not_grow) {
  CommunicatorOptions options;
  options.warn_after = std::chrono::milliseconds(1);
  options.fail_after = std::chrono::minutes(5);
  options.name = "busy";
  const Communicator busy = communicator_from(MPI_COMM_WORLD, options);
  if (busy.size() == 1) GTEST_SKIP() << "no other rank waits";
  std::vector<Communicator> idle;
  for (int i = 0; i < 4; ++i) idle.push_back(busy.duplicate(options));
  const auto stall = [&](int times) {
    for (int i = 0; i < times; ++i) {
      if (busy.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      busy.barrier();
    }
  };
  testing::internal::CaptureStderr();  // the warnings
  stall(512);
  const std::size_t before = mallinfo2().uordblks;
  stall(2048);
  const std::size_t after = mallinfo2().uordblks;
  testing::internal::GetCapturedStderr();
  // otherwise, of each other rank that waits, 2048 messages of more than 1 KiB in each of 4 communicators
  const auto waiting = static_cast<std::size_t>(busy.size() - 1);
  EXPECT_LT(after, before + waiting * (std::size_t{6} << 20));
}

}  // namespace
}  // namespace lockstep::test
